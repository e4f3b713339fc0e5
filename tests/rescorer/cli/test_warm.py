"""Compiling before the first use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moses_bridge.base.errors import ToolError
from rescorer.cli import warm


def test_a_command_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "CHAINS", (("rescorer score {folder}/nothing --out {folder}/o",),))
    with pytest.raises(ToolError, match="nothing"):
        warm.compile_all(1)


def test_commands_without_their_packages_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "find_spec", lambda module: None)
    monkeypatch.setattr(warm, "run_program", lambda arguments: ran.append(arguments[2]))
    ran: list[str] = []
    warm.compile_all(1)
    assert set(ran) == {"rescorer"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_later_commands_have_nothing_to_compile(small_golden: Path, tmp_path: Path) -> None:
    """numba says of each function whether it was kept or had to be compiled."""
    warm.compile_all()
    decode = [sys.executable, "-m", "moses_bridge", "decode", "--ini", "moses.ini", "--jobs", "1"]
    decode += ["--source", "input.en", "--nbest", str(tmp_path / "nbest"), "--nbest-size", "5"]
    decode += ["--out", str(tmp_path / "out")]
    told = subprocess.run(
        decode,
        cwd=small_golden / "decode",
        env=os.environ | {"NUMBA_DEBUG_CACHE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "data loaded" in told.stdout + told.stderr
    assert "data saved" not in told.stdout + told.stderr
