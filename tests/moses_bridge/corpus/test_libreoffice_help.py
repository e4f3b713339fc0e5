from __future__ import annotations

import os
from pathlib import Path

import pytest

from moses_bridge.base.errors import ToolError
from moses_bridge.corpus.libreoffice_help import help_package, help_pairs, read_help
from moses_bridge.corpus.text_pair import TextPair
from tests.moses_bridge.corpus.packages import make_deb

PAGE = """<html><body><p>no id</p><h1 id="hd_id1" dir="auto">{}</h1>
<p id="par_id2" class="paragraph">{}</p><p id="par_id3" class="code">Print 1</p>
<p id="par_id{}">only here</p></body></html>"""


def help_deb(folder: Path, language: str, page: str) -> Path:
    path = f"usr/share/libreoffice/help/{language}/text/shared/main.html"
    return make_deb(folder, f"help-{language}", {path: page.encode()})


@pytest.mark.skipif(not os.path.exists("/usr/bin/dpkg-deb"), reason="no dpkg-deb here")
def test_help_paragraphs_are_joined_by_page_and_id(tmp_path: Path) -> None:
    keys = (
        '<span class="switchinline"><span hidden="true" id="M" class="MAC">Command</span>'
        '<span hidden="true" id="d">Ctrl</span></span> + F'
    )
    english = PAGE.format("Find &amp; Replace", f"Press {keys} now.<br>Then <b>wait</b>.", 4)
    french = PAGE.format(
        "Rechercher &amp; remplacer", f"Appuyez sur {keys} maintenant. Puis attendez.", 5
    )
    debs = help_deb(tmp_path, "en-US", english), help_deb(tmp_path, "fr", french)
    page = "text/shared/main.html"
    assert set(read_help(debs[0])) == {(page, name) for name in ("hd_id1", "par_id2", "par_id4")}
    assert list(help_pairs(*debs, "en", "fr")) == [
        TextPair(page, "Find & Replace", "Rechercher & remplacer"),
        TextPair(page, "Press Ctrl + F now.", "Appuyez sur Ctrl + F maintenant."),
        TextPair(page, "Then wait.", "Puis attendez."),
    ]


@pytest.mark.skipif(not os.path.exists("/usr/bin/dpkg-deb"), reason="no dpkg-deb here")
def test_a_broken_package_is_an_error(tmp_path: Path) -> None:
    deb = tmp_path / "broken.deb"
    deb.write_bytes(b"!<arch>\nnothing")
    with pytest.raises(ToolError, match="dpkg-deb"):
        read_help(deb)


@pytest.mark.parametrize(
    ("language", "package"),
    [("en", "en-us"), ("en_GB", "en-gb"), ("fr", "fr"), ("pt_BR", "pt-br"), ("zh_CN", "zh-cn")],
)
def test_help_packages_have_debians_names(language: str, package: str) -> None:
    assert help_package(language) == f"libreoffice-help-{package}"
