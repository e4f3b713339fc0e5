from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from moses_bridge.base.choices import Origin
from moses_bridge.base.errors import ToolError
from moses_bridge.base.provenance import file_digest
from moses_bridge.corpus.archive_text import archive_text
from moses_bridge.corpus.corpus_config import CorpusConfig
from moses_bridge.corpus.debian_archive import DebianArchive
from moses_bridge.corpus.parallel_corpus import prepare_corpus
from tests.moses_bridge.corpus.packages import make_deb

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb here")


def fetched(folder: Path, files: dict[str, dict[str, bytes]]) -> DebianArchive:
    """An archive whose packages are all fetched."""
    folder.mkdir(parents=True)
    for package, contents in files.items():
        make_deb(folder, package, contents).rename(folder / f"{package}_1_all.deb")
    return DebianArchive(folder, ["en", "fr"])


def pages(language: str, texts: list[str]) -> dict[str, bytes]:
    """Pages of help with two paragraphs each."""
    paragraphs = [f'<p id="par_id{n}">{text}</p>' for n, text in enumerate(texts)]
    return {
        f"usr/share/libreoffice/help/{language}/p{n:02}.html": "".join(
            paragraphs[n : n + 2]
        ).encode()
        for n in range(0, len(texts), 2)
    }


@needs_dpkg
def test_the_help_makes_a_corpus_with_the_digests_of_its_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From fetched packages, without apt and network; the same bytes each time."""
    texts = {
        "en-us": [f"The file {n} of {n * n} is {n * 7}." for n in range(40)],
        "fr": [f"Le fichier {n} de {n * n} est {n * 7}." for n in range(40)],
    }
    archive = fetched(
        tmp_path / "out/download",
        {f"libreoffice-help-{code}": pages(code, lines) for code, lines in texts.items()},
    )
    monkeypatch.setenv("PATH", os.path.dirname(shutil.which("dpkg-deb") or ""))
    config = CorpusConfig(
        origin="libreoffice", n_dev=4, n_test=6, train_sizes=(3, 9), near_copy=0.0, jobs=1
    )
    report = prepare_corpus("en", "fr", tmp_path / "out", config)
    assert report.pairs == {"train": 30, "dev": 4, "test": 6}
    assert report.documents == {"train": 15, "dev": 2, "test": 3}
    names = ["libreoffice-help-en-us_1_all.deb", "libreoffice-help-fr_1_all.deb"]
    assert report.fetched == {name: file_digest(archive.folder / name) for name in names}
    first = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("t*")}
    assert prepare_corpus("en", "fr", tmp_path / "out", config) == report
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "out").glob("t*")}


@pytest.mark.parametrize("origin", ["debian", "libreoffice", "debian+libreoffice"])
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
