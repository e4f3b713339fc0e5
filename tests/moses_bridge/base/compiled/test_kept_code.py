"""Compiled code on disk: of these sources, undamaged, whoever else compiles or keeps some meanwhile."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import moses_bridge
import rescorer
import tuning
from moses_bridge.base.compiled.code_folder import VARIABLE

INNER = """\
from moses_bridge.base.compiled.inner import inner

@inner
def factor(value):
    return 2.0 * value
"""
KEPT = """\
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.formats.an_inner import factor

@compiled
def total(values):
    found = 0.0
    for value in values:
        found += factor(value)
    return found

@compiled
def highest(values):
    return factor(values[len(values) - 1])
"""
PROGRAM = """\
import numpy as np
from moses_bridge.formats.kept import highest, total
values = np.array([0.5, 1.0, 4.0])
hits = [sum(function.stats.cache_hits.values()) for function in (total, highest)]
results = total(values), highest(values)
hits = [sum(function.stats.cache_hits.values()) for function in (total, highest)]
print(*results, *hits)
"""
CONFIGURATION = """\
disable_jit: 1
boundscheck: 1
opt: '0'
debug_cache: 1
cache_dir: {folder}/foreign
"""


class Sources:
    """Another copy of a package, with its own folder of kept code, and with two functions in two files.

    Args:
        folder: for all of it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder, folder / "kept"
        place = Path(moses_bridge.__file__).parent
        ignored = shutil.ignore_patterns("__pycache__", "builtin", "decoding", "check", "cli")
        shutil.copytree(place, folder / "packages" / place.name, ignore=ignored)
        self.inner = folder / "packages" / place.name / "formats" / "an_inner.py"
        self.inner.write_text(INNER)
        self.inner.with_name("kept.py").write_text(KEPT)
        (folder / "work").mkdir()

    def start(self, program: str = PROGRAM) -> subprocess.Popen[str]:
        environment = os.environ | {
            "PYTHONPATH": str(self.folder / "packages"),
            VARIABLE: str(self.kept),
        }
        return subprocess.Popen(
            [sys.executable, "-Werror", "-c", program],
            cwd=self.folder / "work",
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, program: str = PROGRAM) -> list[float]:
        """What a new process prints."""
        return self.end_of(self.start(program))

    @staticmethod
    def end_of(process: subprocess.Popen[str]) -> list[float]:
        printed, told = process.communicate()
        assert (process.returncode, told) == (0, "")
        return [float(word) for word in printed.split()]

    def files(self) -> list[Path]:
        return sorted(path for path in self.kept.rglob("*.nb[ic]"))


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


def test_code_is_found_by_the_next_process(sources: Sources) -> None:
    assert sources.run() == [11.0, 8.0, 0, 0]
    assert len(sources.files()) == 4
    assert sources.run() == [11.0, 8.0, 1, 1]


def test_a_change_of_another_file_is_seen(sources: Sources) -> None:
    """The function itself, whose file numba compares, has not changed."""
    assert sources.run() == [11.0, 8.0, 0, 0]
    sources.inner.write_text(INNER.replace("2.0", "4.0"))
    assert sources.run() == [22.0, 16.0, 0, 0]
    sources.inner.write_text(INNER)
    assert sources.run() == [11.0, 8.0, 1, 1]


@pytest.mark.parametrize("place", [0, 0.3, 0.7])
def test_a_damaged_file_is_compiled_again(sources: Sources, place: float) -> None:
    sources.run()
    for path in sources.files():
        content = bytearray(path.read_bytes())
        content[int(place * len(content))] ^= 64
        path.write_bytes(content)
    assert sources.run() == [11.0, 8.0, 0, 0]
    assert sources.run() == [11.0, 8.0, 1, 1]


def test_code_of_a_process_that_was_killed_is_found(sources: Sources) -> None:
    """It is listed at once, not at the end of the process."""
    killed = f"{PROGRAM}import os, sys\nsys.stdout.flush()\nos._exit(0)"
    assert sources.run(killed) == [11.0, 8.0, 0, 0]
    assert sources.run() == [11.0, 8.0, 1, 1]


def test_processes_that_compile_at_once(sources: Sources) -> None:
    for process in [sources.start() for _ in range(4)]:
        assert sources.end_of(process)[:2] == [11.0, 8.0]
    assert sources.run()[:2] == [11.0, 8.0]
    assert sources.run() == [11.0, 8.0, 1, 1]


def test_a_configuration_of_the_working_directory_is_not_read(sources: Sources) -> None:
    configuration = sources.folder / "work" / ".numba_config.yaml"
    configuration.write_text(CONFIGURATION.format(folder=sources.folder))
    settings = "int(numba.config.{} or 0)".format
    printed = f"print({', '.join(map(settings, ('DISABLE_JIT', 'BOUNDSCHECK', 'OPT')))})"
    assert sources.run(f"import numba\n{printed}") == [1, 1, 0]
    program = f"{PROGRAM}\nfrom moses_bridge.base.compiled import numba\n{printed}\nimport yaml"
    assert sources.run(program) == [11.0, 8.0, 0, 0, 0, 0, 3]
    assert not (sources.folder / "foreign").exists()
    assert sources.run() == [11.0, 8.0, 1, 1]


def test_numba_may_be_imported_before_and_keeps_its_folder(sources: Sources) -> None:
    program = (
        f"import numba\nnumba.config.CACHE_DIR = ''\n{PROGRAM}\nassert not numba.config.CACHE_DIR"
    )
    assert sources.run(program) == [11.0, 8.0, 0, 0]
    assert sources.run() == [11.0, 8.0, 1, 1]


SAVING = """\
import fcntl
import os
import numpy as np
from numba.core import event
from moses_bridge.base.compiled.code_folder import LOCK, code_folder
from moses_bridge.formats.kept import total

file = os.open(code_folder() / LOCK, os.O_RDWR)

def others_may_save():
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    fcntl.flock(file, fcntl.LOCK_UN)
    return 1

class Later(event.Listener):
    def on_start(self, event):
        print(others_may_save())
    def on_end(self, event):
        print(others_may_save())

event.register("numba:compile", Later())
total(np.array([1.0]))
print(others_may_save())
"""


def test_one_process_at_a_time_adds_to_an_index(sources: Sources) -> None:
    """Both functions begin, the inner one ends, the outer one ends and is saved."""
    assert sources.run(SAVING) == [1, 1, 1, 0, 1]


def test_two_signatures_of_a_function(sources: Sources) -> None:
    """numba numbers their codes: exchanged, they would take each other's steps through the array."""
    every_other = PROGRAM.replace("4.0])", "4.0, 8.0, 0.0])[::2]")
    processes = [sources.start(program) for program in (PROGRAM, every_other) * 2]
    for process, total in zip(processes, (11.0, 9.0) * 2, strict=True):
        assert sources.end_of(process)[0] == total
    assert len(sources.files()) == 6
    assert sources.run() == [11.0, 8.0, 1, 1]
    assert sources.run(every_other) == [9.0, 0.0, 1, 1]


def test_only_one_place_imports_numba_and_keeps_code() -> None:
    for package in (moses_bridge, rescorer, tuning):
        (folder,) = package.__path__
        for path in Path(folder).rglob("*.py"):
            if path.parent.name == "compiled":
                continue
            for node in ast.walk(ast.parse(path.read_bytes())):
                _check(node, path)


def _check(node: ast.AST, path: Path) -> None:
    if isinstance(node, ast.ImportFrom):
        assert (node.module or "").split(".")[0] != "numba", path
    if isinstance(node, ast.Import):
        assert "numba" not in [name.name.split(".")[0] for name in node.names], path
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("jit"):
        assert "cache" not in [option.arg for option in node.keywords], path
