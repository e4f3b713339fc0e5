from __future__ import annotations

import gzip
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from moses_bridge.base.choices import Origin
from moses_bridge.base.errors import ToolError, UserError
from moses_bridge.base.provenance import file_digest
from moses_bridge.corpus.archive_text import archive_text
from moses_bridge.corpus.corpus_config import CorpusConfig
from moses_bridge.corpus.debian_archive import DebianArchive
from moses_bridge.corpus.parallel_corpus import prepare_corpus
from tests.moses_bridge.corpus.packages import make_deb
from tests.moses_bridge.corpus.test_gettext_catalogue import compiled

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb here")


def fetched(folder: Path, files: dict[str, dict[str, bytes]]) -> DebianArchive:
    """An archive whose packages are all fetched."""
    folder.mkdir(parents=True)
    for package, contents in files.items():
        make_deb(folder, package, contents).rename(folder / f"{package}_1_all.deb")
    names = "".join(f"{name}\tsource\n" for name in files)
    (folder / "source-packages.gz").write_bytes(gzip.compress(names.encode()))
    return DebianArchive(folder, ["en", "fr"])


def manual(language: str, texts: list[str]) -> dict[str, bytes]:
    return {
        f"usr/share/man/{language}man1/p{n}.1": f".SH {language}N{n}\n{text}\n".encode()
        for n, text in enumerate(texts)
    }


@needs_dpkg
def test_manual_pages_make_a_corpus_with_the_digests_of_their_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From fetched packages, without apt and network; the same bytes each time."""
    english = [f"The file {n} of {n * n} is {n * 7}." for n in range(20)]
    french = [f"Le fichier {n} de {n * n} est {n * 7}." for n in range(20)]
    archive = fetched(
        tmp_path / "out/download",
        {"coreutils": manual("", english), "manpages-fr": manual("fr/", french)},
    )
    monkeypatch.setenv("PATH", os.path.dirname(shutil.which("dpkg-deb") or ""))
    config = CorpusConfig(
        origin="manpages", n_dev=4, n_test=6, train_sizes=(3, 9), near_copy=0.0, jobs=1
    )
    report = prepare_corpus("en", "fr", tmp_path / "out", config)
    assert report.pairs == {"train": 30, "dev": 4, "test": 6}
    assert report.documents == {"train": 15, "dev": 2, "test": 3}
    names = ["coreutils_1_all.deb", "manpages-fr_1_all.deb"]
    assert report.fetched == {name: file_digest(archive.folder / name) for name in names}
    first = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("t*")}
    assert prepare_corpus("en", "fr", tmp_path / "out", config) == report
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "out").glob("t*")}


@needs_dpkg
def test_programs_are_read_from_their_packages(tmp_path: Path) -> None:
    data = compiled({"": "Content-Type: text/plain; charset=UTF-8\n", "_Open %s": "_Ouvrir %s"})
    path = "usr/share/locale/fr/LC_MESSAGES/zim.mo"
    archive = fetched(tmp_path / "download", {"zim": {path: data}})
    text = archive_text("programs", "en", "fr", archive, Counter())
    assert [(pair.group, pair.source, pair.target) for pair in text.pairs] == [
        ("zim", "Open X", "Ouvrir X")
    ]
    assert list(text.digests()) == ["zim_1_all.deb"]


@pytest.mark.parametrize("origin", ["manpages", "programs"])
def test_an_archive_without_such_packages_is_an_error(tmp_path: Path, origin: Origin) -> None:
    archive = fetched(tmp_path / "download", {})
    with pytest.raises(UserError, match="has none of Debian's packages with"):
        archive_text(origin, "en", "fr", archive, Counter())


@pytest.mark.parametrize("origin", ["manpages", "programs"])
def test_without_network_apt_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: Origin
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    scripts = {"apt-config": "", "apt-get": "echo 'E: Could not resolve example.org'; exit 100\n"}
    for name, script in scripts.items():
        (programs / name).write_text("#!/bin/sh\n" + script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    archive = DebianArchive(tmp_path / "download", ["en", "fr"])
    with pytest.raises(ToolError, match="Could not resolve example"):
        archive_text(origin, "en", "fr", archive, Counter())
