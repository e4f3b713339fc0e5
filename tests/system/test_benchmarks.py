"""The scripts of `make bench` fit the packages: nothing else runs them, and some had stopped working unseen."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(BENCH))
    yield
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", "")).startswith(str(BENCH)):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.usefixtures("on_the_path")
@pytest.mark.filterwarnings("ignore")
def test_each_script_can_be_imported() -> None:
    """Packages of other people, which only some of them need, may be missing."""
    names = [path.stem for path in sorted(BENCH.glob("bench_*.py"))]
    assert len(names) > 15
    for name in names:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            assert missing not in ("moses_bridge", "rescorer", "tuning", *names), name


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
