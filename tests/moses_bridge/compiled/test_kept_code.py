"""Compiled code on disk: found by what it is for, and by nothing else, whoever else keeps some meanwhile."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import moses_bridge
import rescorer
import tuning
from moses_bridge.compiled import kept_code
from moses_bridge.compiled.kept_code import CodeFiles

FUNCTION = """\
from moses_bridge.compiled.kept_code import njit

@njit(nogil=True)
def doubled(values):
    total = 0.0
    for value in values:
        total += value
    return 2 * total
"""
# Of one size, so that code for one of them would run on the other.
WHOLE, REAL = np.array([1, 2, 3]), np.array([0.5, 0.25, 4.0])
TYPES = ("int64", "x"), ("float64", "x")


@pytest.fixture
def files(tmp_path: Path) -> CodeFiles:
    return CodeFiles(tmp_path, "module.function-3.py311", (1.5, 200))


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Loads the function as a new process would: nothing but the files is known."""
    monkeypatch.setattr("numba.config.CACHE_DIR", "")  # NUMBA_CACHE_DIR: now beside the module
    path = tmp_path / "functions.py"
    path.write_text(FUNCTION)

    def load() -> Any:
        spec = importlib.util.spec_from_file_location("functions", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.doubled

    return load


def test_code_is_found_by_the_next_process(loaded: Callable[[], Any], tmp_path: Path) -> None:
    first, second = loaded(), loaded()
    for function in (first, second):
        assert function(WHOLE) == 12.0
        assert function(REAL) == 9.5
    assert sum(first.stats.cache_misses.values()) == 2
    assert sum(second.stats.cache_hits.values()) == 2
    assert not second.stats.cache_misses
    assert len(list((tmp_path / "__pycache__").glob("*.nbc"))) == 2


def test_code_for_a_changed_source_is_made_anew(loaded: Callable[[], Any], tmp_path: Path) -> None:
    assert loaded()(REAL) == 9.5
    (tmp_path / "functions.py").write_text(FUNCTION.replace("2 * total", "200 * total"))
    assert loaded()(REAL) == 950.0
    assert len(list((tmp_path / "__pycache__").glob("*.nbc"))) == 1


def test_what_is_compiled_again_is_not_that_of_before(loaded: Callable[[], Any]) -> None:
    function = loaded()
    function(REAL)
    function.recompile()
    assert sum(function.stats.cache_misses.values()) == 2


def test_another_process_keeps_code_meanwhile(
    files: CodeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where numba's own files get each other's names: nothing is on disk yet when the other one looks."""
    other = CodeFiles(tmp_path, "module.function-3.py311", (1.5, 200))
    dumps = kept_code.dumps

    def late(value: object) -> Any:
        monkeypatch.setattr(kept_code, "dumps", dumps)
        other.save(TYPES[1], "code for real numbers")
        return dumps(value)

    monkeypatch.setattr(kept_code, "dumps", late)
    files.save(TYPES[0], "code for whole numbers")
    for each in (files, other):
        assert each.load(TYPES[0]) == "code for whole numbers"
        assert each.load(TYPES[1]) == "code for real numbers"


def test_code_of_another_source_or_version_is_not_found(
    files: CodeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.save(TYPES[0], "code")
    assert CodeFiles(tmp_path, "module.function-3.py311", (1.5, 201)).load(TYPES[0]) is None
    assert CodeFiles(tmp_path, "module.function-4.py311", (1.5, 200)).load(TYPES[0]) is None
    monkeypatch.setattr("numba.__version__", "0.1")
    assert CodeFiles(tmp_path, "module.function-3.py311", (1.5, 200)).load(TYPES[0]) is None
    assert files.load(TYPES[0]) == "code"


def test_code_of_an_older_source_goes_and_that_of_others_stays(
    files: CodeFiles, tmp_path: Path
) -> None:
    files.save(TYPES[0], "old")
    longer = CodeFiles(tmp_path, "module.function-3.py311b", (1.5, 200))
    longer.save(TYPES[0], "of another function")
    (tmp_path / "module.function-3.py311.1.nbc").write_bytes(b"numba's own")
    newer = CodeFiles(tmp_path, "module.function-3.py311", (1.5, 201))
    for key in TYPES:
        newer.save(key, "new")
    assert [newer.load(key) for key in TYPES] == ["new", "new"]
    assert longer.load(TYPES[0]) == "of another function"
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("n_bytes", [0, 1, 20])
def test_a_damaged_file_counts_as_none(files: CodeFiles, tmp_path: Path, n_bytes: int) -> None:
    files.save(TYPES[0], "code")
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:n_bytes])
    assert files.load(TYPES[0]) is None
    files.save(TYPES[0], "code")
    assert files.load(TYPES[0]) == "code"


def test_a_name_alone_does_not_count(files: CodeFiles, tmp_path: Path) -> None:
    files.save(TYPES[0], "code for whole numbers")
    (whole,) = tmp_path.iterdir()
    files.save(TYPES[1], "code for real numbers")
    (real,) = set(tmp_path.iterdir()) - {whole}
    whole.replace(real)
    assert files.load(TYPES[1]) is None


def test_what_cannot_be_written_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    files = CodeFiles(tmp_path, "function", 1)
    files.save(TYPES[0], "code")
    assert files.load(TYPES[0]) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "package", [moses_bridge, rescorer, tuning], ids=lambda each: each.__name__
)
def test_no_function_is_kept_by_numba_itself(package: ModuleType) -> None:
    (folder,) = package.__path__
    for path in Path(folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("jit"):
                assert "cache" not in [option.arg for option in node.keywords], path
