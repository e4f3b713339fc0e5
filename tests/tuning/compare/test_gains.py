"""One system's row out of several tables, and its forms."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.lock import held_directory
from tuning.cli import main
from tuning.compare.comparison import Comparison, Contrast, ResultRow
from tuning.compare.gains import gains_of
from tuning.report.forms import to_json
from tuning.report.tables import gains_rows
from tuning.report.write import write_gains


def row(system: str, bleu: float, delta: float | None, p_value: float = 1.0) -> ResultRow:
    interval = (0.0, 0.0) if delta is None else (delta - 0.5, delta + 0.25)
    contrast = None if delta is None else Contrast(delta, interval, p_value, 0.9, 0.7, True)
    numbers = (40.0, 0.1, bleu, 0.1)
    scores = (1.0, [60.0, 40.0, 30.0, 20.0], 0.4, bleu - 1, 60.0, 50.0)
    return ResultRow(system, *numbers, contrast, None, 3, 1, None, *scores, {}, [])


def table(delta: float, p_value: float, control: str = "") -> Comparison:
    noise = row("noise", 39.9, -0.1, 0.4)
    against_control = Contrast(delta + 0.1, (0.0, 1.0), p_value / 2, 0.9, 0.7, True)
    system = row("+RNN", 40 + delta, delta, p_value)
    if control:
        system = replace(system, against_control=against_control)
    return Comparison([row("Baseline", 40.0, None), system, noise], control=control)


COMPARISONS = {"large": table(0.1, 0.03), "small": table(0.7, 0.02, "noise")}


def test_p_values_are_corrected_for_the_tables() -> None:
    large, small = gains_of(COMPARISONS, "+RNN").rows
    # Holm (1979): the smaller one times two, the larger one not below it.
    assert small.against_baseline.corrected_p_value == pytest.approx(0.04)
    assert large.against_baseline.corrected_p_value == pytest.approx(0.04)
    assert (large.against_control, large.control) == (None, None)
    assert small.against_control is not None
    assert small.against_control.corrected_p_value == pytest.approx(0.01)
    assert small.control is not None
    assert small.control.delta == -0.1


def test_a_row_a_table() -> None:
    rows = gains_rows(gains_of(COMPARISONS, "+RNN"))
    assert rows[1] == {
        "table": "small",
        "baseline": "40.00",
        "delta": "+0.70",
        "95%": "+0.20..+0.95",
        "p": "0.0200",
        "Holm": "0.0400",
        "control": "-0.10",
        "vs control": "+0.80",
        "its Holm": "0.0100",
        "runs": "3",
    }
    assert (rows[0]["control"], rows[0]["its Holm"]) == ("", "")


def test_all_forms_are_written_the_same_again(tmp_path: Path) -> None:
    gains = gains_of(COMPARISONS, "+RNN")
    assert write_gains(gains, tmp_path) == (tmp_path / "gains.txt").read_text()
    assert "| small | 40.00 | +0.70 |" in (tmp_path / "gains.md").read_text()
    assert json.loads((tmp_path / "gains.json").read_text())["rows"][1]["control"]["delta"] == -0.1
    picture = (tmp_path / "gains.svg").read_text()
    for shown in ("small", "large", "BLEU above the baseline", "control"):
        assert f"<!-- {shown}" in picture
    write_gains(gains, tmp_path / "again")
    assert (tmp_path / "again" / "gains.svg").read_text() == picture


@pytest.mark.parametrize("system", ["+CSLM", "Baseline"])
def test_a_system_that_a_table_does_not_compare(system: str) -> None:
    with pytest.raises(ConfigError, match=r"the table large sets no system .*it has \+RNN, noise"):
        gains_of(COMPARISONS, system)


def test_the_command(tmp_path: Path) -> None:
    paths = []
    for name, comparison in COMPARISONS.items():
        paths.append(f"{name}={tmp_path / name}.json")
        (tmp_path / f"{name}.json").write_text(to_json(comparison))
    options = ["--system", "+RNN", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, ["gains", *paths, *options])
    assert result.exit_code == 0
    assert result.output == (tmp_path / "out" / "gains.txt").read_text()


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(to_json(COMPARISONS["large"]))
    out = tmp_path / "out"
    command = ["gains", f"a={tmp_path / 'a.json'}", "--system", "+RNN", "--out", str(out)]
    with held_directory(out):
        before = [*out.iterdir()]
        result = CliRunner().invoke(main, command, prog_name="tuning")
        assert [*out.iterdir()] == before
    assert result.exit_code == 1 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"tuning: error: {out}: another command writes there (process")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (["a.json"], "found 'a.json', expected NAME=TABLE"),
        (["a=x.json", "a=y.json"], "the table a is given twice"),
        (["a=missing.json"], "missing.json"),
    ],
)
def test_faulty_tables(tables: list[str], message: str, tmp_path: Path) -> None:
    command = ["gains", *tables, "--system", "+RNN", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert message in result.output
