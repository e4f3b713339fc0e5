"""The source distribution has everything: packages, tests, pages, Makefile; so has the wheel made of it."""

from __future__ import annotations

import os
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
BUILD_WHEEL = BUILD.replace("sdist", "wheel")


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


@pytest.mark.slow
def test_an_experiment_runs_from_a_wheel(distribution: Path, tmp_path: Path) -> None:
    """Elsewhere, with the wheel's files alone; the packages of others are those of this environment."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    build = [sys.executable, "-c", BUILD_WHEEL, str(tmp_path)]
    subprocess.run(build, cwd=distribution, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    place = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", str(place), str(wheel)], check=True)
    kinds = {".toml", ".mk"}
    files = {path.relative_to(place) for path in place.rglob("*") if path.suffix in kinds}
    experiments = (ROOT / "tuning" / "experiments").rglob("*")
    assert files == {path.relative_to(ROOT) for path in experiments if path.suffix in kinds}
    for experiment in ("table1", "home", "networks", "best", "controls"):
        told = subprocess.run(
            [place / "bin" / "tuning", "run", "--dry-run", experiment, "--out", "build"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(place)},
            capture_output=True,
            text=True,
        )
        assert told.returncode == 0, told.stderr
        lines = told.stdout.splitlines()
        assert lines[0].endswith("reckoned  corpus/train.en  (moses-bridge corpus)")
        assert int(lines[-1].split()[0]) == len(lines) - 1 > 10
    assert not (tmp_path / "build").exists()


def test_its_metadata(distribution: Path) -> None:
    metadata = HeaderParser().parsestr((distribution / "PKG-INFO").read_text())
    assert (metadata["Name"], metadata["Version"]) == ("rescorer", "1.1.0")
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
