"""The lists of `make mutate` fit the code."""

from __future__ import annotations

import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MUTATE = runpy.run_path(str(HERE / "mutate.py"))
MODULES = MUTATE["listed_modules"]()
LISTED = tomllib.loads((HERE / "modules.toml").read_text())
FAULTS = tomllib.loads((HERE / "faults.toml").read_text())["fault"]


def test_every_module_of_tuning_and_of_the_scoring_engine_is_mutated() -> None:
    rooms = ("metrics", "optimisers", "loop", "compare")
    folders = (*(f"tuning/{room}" for room in rooms), "rescorer/tries", "rescorer/windows")
    code = {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).glob("*.py")
        if path.name != "__init__.py"
    }
    single = {
        "rescorer/layers/output_layer.py",
        "rescorer/tables/block_scoring.py",
        "rescorer/tables/scored_table.py",
    }
    # Commands and renderers have tests of whole texts, in which a mutant is one other word; protocols
    # are not run.
    left_out = {
        "tuning/optimisers/by_name.py",
        "rescorer/windows/windowed.py",
    }
    assert sorted(MODULES) == sorted((code | single) - left_out)


@pytest.mark.parametrize("path", MODULES)
def test_the_tests_of_a_module_are_there(path: str) -> None:
    tests = MUTATE["suite_of"](path).tests
    assert tests and all((ROOT / name).is_file() for name in tests)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["path"])
def test_the_tests_of_a_fault_are_there(fault: dict[str, Any]) -> None:
    assert fault["tests"] and all((ROOT / tests).is_file() for tests in fault["tests"])


def test_modules_are_those_of_the_code() -> None:
    named = [*LISTED["modules"], *LISTED["left_out"], *(e["path"] for e in LISTED["exception"])]
    assert all((ROOT / path).is_file() for path in named)
    assert {entry["path"] for entry in LISTED["exception"]} <= set(MODULES)


@pytest.mark.parametrize("entry", LISTED["exception"], ids=lambda entry: entry["path"])
def test_an_exception_says_what_the_place_of_the_tests_does_not(entry: dict[str, Any]) -> None:
    path = Path(entry["path"])
    mirror = f"tests/{path.parent}/test_{path.name}"
    suite = MUTATE["suite_of"](entry["path"])
    assert set(entry) <= {"path", "further", "last", "jit"} and len(entry) > 1
    assert mirror not in entry.get("further", [])
    assert list(suite.tests) == [
        *([mirror] if (ROOT / mirror).is_file() else []),
        *entry.get("further", []),
    ]
    assert (suite.last, suite.jit) == (entry.get("last", ""), entry.get("jit", True))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["name"])
def test_a_fault_can_be_put_in(fault: dict[str, Any]) -> None:
    assert (ROOT / fault["path"]).read_text().count(fault["old"]) == 1
    assert fault["new"] != fault["old"]
