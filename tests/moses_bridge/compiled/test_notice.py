from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from numba import njit

from moses_bridge.compiled.notice import CompilationNotice

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from moses_bridge.compiled.notice import CompilationNotice
import doubling
with CompilationNotice("the doubling"):
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
    assert run(tmp_path, "4") == ("8\n", "compiling the doubling; later runs need not\n")
    assert run(tmp_path, "4") == ("8\n", "")
    assert "compiling" in run(tmp_path, "0.5")[1]  # for floats it has not been compiled yet


def test_told_once_for_all_functions_and_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    one, other = njit(lambda number: number + 1), njit(lambda number: number - 1)
    notice = CompilationNotice("both")
    with notice:
        assert (one(1), other(1)) == (2, 0)
    with notice:
        assert one(0.5) == 1.5
    assert capsys.readouterr().err == "compiling both; later runs need not\n"


def test_not_told_outside_of_the_block(capsys: pytest.CaptureFixture[str]) -> None:
    with CompilationNotice("nothing"):
        pass
    assert njit(lambda number: 3 * number)(2) == 6
    assert capsys.readouterr().err == ""


def test_nothing_is_noticed_after_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), CompilationNotice("nothing"):
        raise ZeroDivisionError
    assert njit(lambda number: 4 * number)(2) == 8
    assert capsys.readouterr().err == ""
