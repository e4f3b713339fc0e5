"""The scripts of `make bench` fit the packages: nothing else runs them, and some had stopped working unseen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"
PROGRAM = """\
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] in ("moses_bridge", "rescorer", "tuning", *sys.argv[1:]):
            raise
"""


@pytest.mark.slow
def test_each_script_can_be_imported() -> None:
    """Packages of other people, which only some of them need, may be missing."""
    names = [path.stem for path in sorted(BENCH.glob("bench_*.py"))]
    assert len(names) > 15
    command = [sys.executable, "-c", PROGRAM, *names]
    there = {**os.environ, "PYTHONPATH": str(BENCH)}
    ended = subprocess.run(command, env=there, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
