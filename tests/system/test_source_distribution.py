"""The source distribution has everything: packages, tests, pages, Makefile; and metadata that pip shows."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from email.parser import HeaderParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
)
BUILD = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution; setuptools writes beside what it packs, so it packs a copy."""
    folder = tmp_path_factory.mktemp("distribution")
    shutil.copytree(ROOT, folder / "source", ignore=NOT_COPIED)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, folder],
        cwd=folder / "source",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "deprecat" not in done.stderr.lower()
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def test_it_has_every_file_of_the_repository(distribution: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no clone")
    missing = {name for name in listed.stdout.splitlines() if not (distribution / name).exists()}
    assert missing == {".gitignore"}


def test_its_tests_have_what_they_read(distribution: Path) -> None:
    for name in ("Makefile", "constraints.txt", "docs/index.md", "tests/conftest.py", "tests/data"):
        assert (distribution / name).exists(), name
    left = {path.suffix for path in distribution.rglob("*") if path.is_file()}
    assert not left & {".pyc", ".nbi", ".nbc"}


def test_its_metadata(distribution: Path) -> None:
    metadata = HeaderParser().parsestr((distribution / "PKG-INFO").read_text())
    assert (metadata["Name"], metadata["Version"]) == ("rescorer", "1.0.0")
    assert (metadata["License-Expression"], metadata["Author"]) == (
        "MIT",
        "the rescorer developers",
    )
    assert metadata["Requires-Python"] == ">=3.11"
    assert {"build", "report", "views", "cluster", "kenlm", "all"} <= {
        *metadata.get_all("Provides-Extra", [])
    }
    assert metadata["Keywords"] and metadata.get_all("Classifier")


def test_the_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    released = re.search(r"(?m)^## (\d+\.\d+\.\d+) ", (ROOT / "CHANGELOG.md").read_text())
    assert released and released[1] == version
