"""The picture of tuning runs: its numbers by hand, its files as files of their kind."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import ConfigError, InputError
from tuning.cli import main
from tuning.loop.run_directory import Iteration, TuningRun, save_run
from tuning.report.pictures import plot_runs
from tuning.report.run_series import weights_by_iteration

FIRST = {"LM0": [1.0], "T0": [2.0, -1.0]}
SECOND = {"LM0": [0.5], "T0": [0.25, 0.25], "RNN0": [-1.0]}


def example_run(*weights: dict[str, list[float]]) -> TuningRun:
    iterations = [
        Iteration(each, 30.0 + number, 1.0, 50.0) for number, each in enumerate(weights, 1)
    ]
    return TuningRun("moses.ini", FIRST, 32.0, 1, 100, {}, iterations=iterations)


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    paths = [tmp_path / "runs" / "baseline-1", tmp_path / "runs" / "rnn" / "1"]
    for path, run in zip(paths, [example_run(FIRST), example_run(FIRST, SECOND)], strict=True):
        path.mkdir(parents=True)
        save_run(run, path)
    return paths


def test_weights_are_normalised_and_named() -> None:
    columns = weights_by_iteration(example_run(FIRST, SECOND))
    assert list(columns) == ["LM0", "T0_0", "T0_1", "RNN0"]
    assert columns["LM0"].tolist() == [0.25, 0.25]
    assert columns["T0_1"].tolist() == [-0.25, 0.125]
    assert np.isnan(columns["RNN0"][0])
    assert columns["RNN0"][1] == -0.5
    nothing = weights_by_iteration(example_run({"LM0": [0.0], "T0": [0.0, 0.0]}))
    assert [values.tolist() for values in nothing.values()] == [[0.0]] * 3


def test_svg_shows_all_runs_and_weights_and_is_the_same_each_time(
    runs: list[Path], tmp_path: Path
) -> None:
    for name in ("one.svg", "two.svg"):
        plot_runs(runs, tmp_path / name)
    text = (tmp_path / "one.svg").read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    for shown in ("baseline-1", "rnn/1", "T0_1", "RNN0", "dev BLEU"):
        assert f"<!-- {shown}" in text
    assert text == (tmp_path / "two.svg").read_text()


def test_a_name_that_is_no_utf_8_is_shown_with_escapes(runs: list[Path], tmp_path: Path) -> None:
    other = runs[0].rename(runs[0].with_name(os.fsdecode(b"a\xff")))
    plot_runs([other], tmp_path / "a.svg")
    assert r"<!-- weights of a\xff" in (tmp_path / "a.svg").read_text()


def test_png_by_the_command(runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "tuning.png"
    result = CliRunner().invoke(main, ["plot", *map(str, runs), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules


def test_other_suffixes_and_one_run_twice_are_refused(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.pdf: expected a name that ends in \.png or \.svg"):
        plot_runs(runs, tmp_path / "a.pdf")
    with pytest.raises(ConfigError, match="given twice"):
        plot_runs([runs[0], runs[0]], tmp_path / "a.svg")


def test_a_run_without_iterations_is_refused(tmp_path: Path) -> None:
    save_run(example_run(), tmp_path)
    with pytest.raises(InputError, match=r"weights\.json: found no iterations"):
        plot_runs([tmp_path], tmp_path / "a.svg")
