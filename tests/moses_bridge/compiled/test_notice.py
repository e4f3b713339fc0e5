from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from numba import njit

from moses_bridge.base import progress
from moses_bridge.compiled.notice import CompilationNotice

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from moses_bridge.compiled.notice import CompilationNotice
import doubling
with CompilationNotice("the doubling", 1):
    print(doubling.doubled({argument}))
"""
DOUBLING = """
from numba import njit

@njit(cache=True)
def doubled(number):
    return 2 * number
"""


def run(folder: Path, argument: str) -> tuple[str, str]:
    program = PROGRAM.format(folder=str(folder), argument=argument)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def test_told_in_the_first_process_and_not_when_the_cache_has_it(tmp_path: Path) -> None:
    (tmp_path / "doubling.py").write_text(DOUBLING)
    printed, told = run(tmp_path, "4")
    assert printed == "8\n"
    assert re.fullmatch(
        r"compiling the doubling; later runs need not\ncompile: 1/1 \(100%\) functions, .*\n", told
    )
    assert run(tmp_path, "4") == ("8\n", "")
    assert "compiling" in run(tmp_path, "0.5")[1]  # for floats it has not been compiled yet


def test_told_once_for_all_functions_and_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    one, other = njit(lambda number: number + 1), njit(lambda number: number - 1)
    notice = CompilationNotice("both", 6)
    with notice:
        assert (one(1), other(1)) == (2, 0)
    with notice:
        assert one(0.5) == 1.5
    with notice:
        assert one(0.5) == 1.5
    told, *lines = capsys.readouterr().err.splitlines()
    assert told == "compiling both; later runs need not"
    assert [line.split(",")[0] for line in lines] == [
        "compile: 2/2 (100%) functions",
        "compile: 3/3 (100%) functions",
    ]


def test_the_share_that_is_done_is_told_while_it_compiles(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOG_LINES", 0.0)
    with CompilationNotice("all", 4):
        assert njit(lambda number: number + 5)(1) == 6
        assert njit(lambda number: number + 6)(1) == 7
    lines = capsys.readouterr().err.splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == [
        "compile: 1/4 (25%) functions",
        "compile: 2/4 (50%) functions",
        "compile: 2/2 (100%) functions",
    ]
    assert lines[1].endswith(" left")


def test_not_told_outside_of_the_block(capsys: pytest.CaptureFixture[str]) -> None:
    with CompilationNotice("nothing", 1):
        pass
    assert njit(lambda number: 3 * number)(2) == 6
    assert capsys.readouterr().err == ""


def test_nothing_is_noticed_after_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), CompilationNotice("nothing", 1):
        raise ZeroDivisionError
    assert njit(lambda number: 4 * number)(2) == 8
    assert capsys.readouterr().err == ""
