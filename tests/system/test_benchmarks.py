"""The scripts of `make bench` fit the packages: nothing else runs them, and some had stopped working unseen."""

from __future__ import annotations

import os
import re
import runpy
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


def test_the_benchmarks_of_the_makefile_are_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `make bench` and its like would run, on files below the folder of the build."""
    makefile = (BENCH.parents[1] / "Makefile").read_text()
    (goals,) = re.findall(r"^(bench .*): ", makefile, re.MULTILINE)
    for name in ("B", "BUILD", "CORPUS", "MODEL"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name, value in {"RUN": "tuning run 'a b.toml'", "SOURCE": "en", "TARGET": "fr"}.items():
        monkeypatch.setenv(name, value)
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    main = runpy.run_path(str(BENCH / "benches.py"))["main"]
    for goal in goals.split():
        before = len(commands)
        main(goal)
        assert len(commands) > before, goal
    steps = [command for command in commands if command[0] == "tuning"]
    assert ["tuning", "run", "a b.toml", "--out", str(tmp_path / "B")] == steps[0][:5]
    scripts = {Path(command[1]).name for command in commands if command not in steps}
    assert scripts == {path.name for path in BENCH.glob("bench_*.py")}
