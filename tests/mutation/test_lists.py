"""The lists of `make mutate` fit the code."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODULES = tomllib.loads((HERE / "modules.toml").read_text())["module"]
FAULTS = tomllib.loads((HERE / "faults.toml").read_text())["fault"]
# Commands and renderers have tests of whole texts, in which a mutant is one other word.
LEFT_OUT = {"tuning/optimisers/contract.py", "tuning/optimisers/by_name.py"}


def test_every_module_of_tuning_and_of_the_scoring_engine_is_mutated() -> None:
    rooms = ("pools", "optimisers", "loop", "compare", "scan")
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
    paths = [module["path"] for module in MODULES]
    assert sorted(paths) == sorted((code | single) - LEFT_OUT)


@pytest.mark.parametrize("entry", [*MODULES, *FAULTS], ids=lambda entry: entry["path"])
def test_the_tests_are_there(entry: dict[str, Any]) -> None:
    assert all((ROOT / tests).is_file() for tests in entry["tests"])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["name"])
def test_a_fault_can_be_put_in(fault: dict[str, Any]) -> None:
    assert (ROOT / fault["path"]).read_text().count(fault["old"]) == 1
    assert fault["new"] != fault["old"]
