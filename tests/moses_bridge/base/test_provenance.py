"""What made a result: places of the machine are left out, and a tree says whether it is its commit."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from moses_bridge.base import provenance as module
from moses_bridge.base.json_files import record_of
from moses_bridge.base.provenance import (
    Provenance,
    own_version,
    provenance,
    shown_command,
    shown_path,
)

NAME = "moses_bridge/base/provenance.py"
# What the program says of itself, wherever it is.
ASK = "from moses_bridge.base.provenance import provenance; made = provenance(['x'], []); "
ASK += "print(made.commit, made.changed)"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("--jobs", "--jobs"),
        ("runs/1", "runs/1"),
        ("../runs/1", "../runs/1"),
        ("/elsewhere/of/someone/test.en", "test.en"),
        ("HERE/runs/1", "runs/1"),
        ("Baseline=HERE/runs/1,/home/someone/runs/2", "Baseline=runs/1,2"),
        ("CSLM0:LM0=rescorer serve /home/someone/cslm", "'CSLM0:LM0=rescorer serve cslm'"),
        ("--config=/etc/x/compare.toml", "--config=compare.toml"),
        ("a/b", "a/b"),
        ("1/2", "1/2"),
        ("/", "/"),
    ],
)
def test_places_of_the_machine_are_left_out(here: Path, argument: str, shown: str) -> None:
    argument = argument.replace("HERE", str(here))
    assert shown_command(["/usr/bin/tuning", "compare", argument]) == f"tuning compare {shown}"


def test_a_module_that_is_run_has_the_name_of_its_package() -> None:
    assert shown_command(["/x/tuning/__main__.py", "compare"]) == "tuning compare"


def test_a_path_is_shown_as_given_or_as_seen_from_here(here: Path) -> None:
    assert shown_path(Path("a/../b")) == "a/../b"
    assert shown_path(here / "a" / "b") == "a/b"
    assert shown_path(here.parent / "b") == "b"


def test_two_files_of_one_name_are_two_inputs(here: Path) -> None:
    inputs = [
        (Path("/x/w.json"), "aa"),
        (Path("/y/w.json"), "bb"),
        (Path("/z/w.json"), "cc"),
        (Path("/x/w.json"), "aa"),
    ]
    made = provenance(["x"], inputs)
    assert made.inputs == {"w.json": "aa", "w.json (2)": "bb", "w.json (3)": "cc"}


def test_it_says_the_day_and_the_machine() -> None:
    made = provenance(["x", "y"], [])
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", made.date)
    assert made.command == "x y"
    assert made.processor and made.n_processors >= 1
    assert record_of(Provenance, dataclasses.asdict(made), "x", "what made it") == made


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree under git with as much of the package as it takes."""
    folder = tmp_path / "tree"
    parts = ("__init__", "provenance", "machine", "errors")
    for name in ("__init__.py", *(f"base/{part}.py" for part in parts)):
        target = folder / "moses_bridge" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(module.__file__).parents[1] / name, target)
    (folder / "pyproject.toml").write_text('[project]\nname = "rescorer"\n')
    (folder / ".gitignore").write_text("__pycache__/\n/site/\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")
    return folder


def asked(program: Path) -> list[str]:
    """Commit and whether it was changed, as the program at a place says."""
    here = {**os.environ, "PYTHONPATH": "."}
    result = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=program,
        env=here,
        check=True,
        capture_output=True,
        text=True,
    )
    return result.stdout.split()


@needs_git
def test_a_source_tree_says_its_commit_and_whether_it_was_changed(tree: Path) -> None:
    commit = git(tree, "rev-parse", "HEAD")[:12]
    assert asked(tree) == [commit, "False"]
    (tree / "notes.txt").write_text("not of the packages\n")
    assert asked(tree) == [commit, "False"]
    with (tree / NAME).open("a") as stream:
        stream.write("# changed\n")
    assert asked(tree) == [commit, "True"]


@needs_git
def test_an_installed_package_says_whether_it_is_that_of_the_tree_around(tree: Path) -> None:
    commit = git(tree, "rev-parse", "HEAD")[:12]
    site = tree / "site"
    shutil.copytree(tree / "moses_bridge", site / "moses_bridge")
    assert asked(site) == [commit, "False"]
    with (site / NAME).open("a") as stream:
        stream.write("# changed\n")
    assert asked(site) == [commit, "True"]


@needs_git
@pytest.mark.parametrize("project", ['[project]\nname = "other"\n', "no TOML", None])
def test_another_project_around_is_none(tree: Path, project: str | None) -> None:
    """A user's repository with this package installed in it has commits of its own."""
    if project is None:
        (tree / "pyproject.toml").unlink()
    else:
        (tree / "pyproject.toml").write_text(project)
    assert asked(tree) == ["None", "None"]


@needs_git
def test_a_tree_without_commits_or_git_has_none(tree: Path) -> None:
    shutil.rmtree(tree / ".git")
    (tree / ".git").mkdir()
    assert asked(tree) == ["None", "None"]


def test_a_package_that_is_being_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that has worked for hours does not end with a traceback for it."""

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    assert own_version() == version("rescorer")
    monkeypatch.setattr(module, "version", missing)
    assert own_version() == "unknown"
