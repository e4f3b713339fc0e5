"""Gains in several tables: by hand, and pooled ones against published figures (Colditz et al. 1994)."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.lock import held_directory
from tuning.cli import main
from tuning.compare.comparison import Comparison, Contrast, ResultRow
from tuning.compare.gains import gains_of, pool
from tuning.report.forms import to_json
from tuning.report.tables import gains_table
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
    rows, _ = gains_table(gains_of(COMPARISONS, "+RNN"))
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


# Tuberculosis and none of it with the vaccine, and without: Colditz et al. (1994), as in van Houwelingen et al.
# (2002), table I.
TRIALS = [
    (4, 119, 11, 128),
    (6, 300, 29, 274),
    (3, 228, 11, 209),
    (62, 13536, 248, 12619),
    (33, 5036, 47, 5761),
    (180, 1361, 372, 1079),
    (8, 2537, 10, 619),
    (505, 87886, 499, 87892),
    (29, 7470, 45, 7232),
    (17, 1699, 65, 1600),
    (186, 50448, 141, 27197),
    (5, 2493, 3, 2338),
    (27, 16886, 29, 17825),
]


KNOWN = 1e12  # degrees of freedom of a standard error that is no estimate


def table_of(delta: float, error: float | None, freedom: float | None = KNOWN) -> Comparison:
    contrast = Contrast(delta, (0.0, 0.0), 0.5, 0.5, 0.7, True, error, freedom)
    scores = (1.0, [60.0, 40.0, 30.0, 20.0], 0.4, 30.0, 60.0, 50.0)
    rows = [
        ResultRow(system, 40.0, 0.1, 40.0, 0.1, against, None, 3, 1, None, *scores, {}, [])
        for system, against in (("Baseline", None), ("+RNN", contrast))
    ]
    return Comparison(rows)


def trials() -> dict[str, Comparison]:
    """Logarithms of relative risks, and their standard errors."""
    return {
        f"trial {number}": table_of(
            log(sick / (sick + well) * (sick0 + well0) / sick0),
            (1 / sick - 1 / (sick + well) + 1 / sick0 - 1 / (sick0 + well0)) ** 0.5,
        )
        for number, (sick, well, sick0, well0) in enumerate(TRIALS)
    }


def test_the_trials_of_the_bcg_vaccine() -> None:
    """All figures as the R package metafor (Viechtbauer 2010) prints them: rma(method="FE") and method="DL"."""
    pooled = pool(trials(), "+RNN")
    assert (pooled.q, pooled.q_degrees_of_freedom) == (pytest.approx(152.2330, abs=5e-5), 12)
    assert pooled.q_p_value < 0.0001
    assert pooled.tau_squared == pytest.approx(0.3088, abs=5e-5)
    assert 100 * pooled.i_squared == pytest.approx(92.12, abs=5e-3)
    assert pooled.fixed.delta == pytest.approx(-0.4303, abs=5e-5)
    assert pooled.fixed.standard_error == pytest.approx(0.0405, abs=5e-5)
    assert pooled.fixed.interval == pytest.approx((-0.5097, -0.3509), abs=5e-5)
    assert pooled.random.delta == pytest.approx(-0.7141, abs=5e-5)
    assert pooled.random.p_value < 0.01
    for name in ("fixed_weight", "random_weight"):
        assert sum(getattr(row, name) for row in pooled.rows) == pytest.approx(1)


def test_the_error_of_random_effects_is_that_of_the_gains_about_their_mean() -> None:
    """By the definition of Knapp & Hartung (2003), with the published tau^2 of the trials."""
    pooled = pool(trials(), "+RNN")
    gains = [(row.delta, 1 / (row.standard_error**2 + 0.30876)) for row in pooled.rows]
    total = sum(weight for _, weight in gains)
    mean = sum(weight * delta for delta, weight in gains) / total
    square = sum(weight * (delta - mean) ** 2 for delta, weight in gains) / 12 / total
    assert pooled.random.standard_error == pytest.approx(square**0.5, abs=1e-5)
    assert pooled.random.degrees_of_freedom == 12
    # The 97.5% point of t with 12 degrees of freedom, of any printed table.
    ends = mean - 2.1788 * square**0.5, mean + 2.1788 * square**0.5
    assert pooled.random.interval == pytest.approx(ends, abs=1e-4)


def test_gains_that_agree_have_one_mean_by_hand() -> None:
    """Errors 0.1 and 0.2 weigh 4 to 1: (4 * 0.3 + 0.4) / 5, and 1 / sqrt(125)."""
    pooled = pool({"a": table_of(0.3, 0.1), "b": table_of(0.4, 0.2)}, "+RNN")
    assert pooled.fixed.delta == pytest.approx(0.32)
    assert pooled.fixed.standard_error == pytest.approx(0.0894427, abs=1e-7)
    # 100 * 0.02^2 + 25 * 0.08^2 is less than its one degree of freedom.
    assert pooled.q == pytest.approx(0.2)
    assert (pooled.tau_squared, pooled.i_squared) == (0.0, 0.0)
    assert pooled.random.standard_error == pytest.approx(pooled.fixed.standard_error)
    assert pooled.random.delta == pytest.approx(pooled.fixed.delta)
    assert [row.fixed_weight for row in pooled.rows] == pytest.approx([0.8, 0.2])


def test_gains_that_are_equal_have_an_interval() -> None:
    pooled = pool({"a": table_of(0.3, 0.1), "b": table_of(0.3, 0.1)}, "+RNN")
    assert pooled.i_squared == 0.0
    # 0.1 / sqrt(2), and 12.7062, the 97.5% point of t with one degree of freedom.
    low, high = pooled.random.interval
    assert high - low == pytest.approx(2 * 12.7062 * 0.0707107, abs=1e-4)


def test_few_degrees_of_freedom_widen_the_interval_by_hand() -> None:
    """Meier (1953): shares 0.8 and 0.2 with 8 and 4 degrees of freedom."""
    mean = pool({"a": table_of(0.3, 0.1, 8.0), "b": table_of(0.4, 0.2, 4.0)}, "+RNN").fixed
    # (1 + 4 (0.16 / 8 + 0.16 / 4)) / 125, and 1 / (0.64 / 8 + 0.04 / 4).
    assert mean.standard_error == pytest.approx((1.24 / 125) ** 0.5)
    assert mean.degrees_of_freedom == pytest.approx(1 / 0.09)
    assert mean.interval[1] - mean.delta > 2.19 * mean.standard_error


@pytest.mark.parametrize(("n_tables", "own_deviation"), [(2, 0.0), (4, 0.0), (5, 0.3)])
def test_intervals_cover_the_gain_in_about_95_of_100_cases(
    n_tables: int, own_deviation: float
) -> None:
    """Errors with 6 to 10 degrees of freedom, as tables of three runs have; normal ones cover 85 to 90%."""
    rng = np.random.default_rng(n_tables)
    errors, freedoms = np.resize([0.15, 0.1, 0.2], n_tables), np.resize([6.0, 10.0], n_tables)
    n_covered = {"fixed": 0, "random": 0}
    for _ in range(2_000):
        deltas = 0.2 + np.hypot(errors, own_deviation) * rng.standard_normal(n_tables)
        found = errors * np.sqrt(rng.chisquare(freedoms) / freedoms)
        each = zip(deltas.tolist(), found.tolist(), freedoms.tolist(), strict=True)
        pooled = pool({str(place): table_of(*row) for place, row in enumerate(each)}, "+RNN")
        for name in n_covered:
            low, high = getattr(pooled, name).interval
            n_covered[name] += low < 0.2 < high
    assert n_covered["random"] / 2_000 > 0.92
    if own_deviation:
        assert n_covered["random"] / 2_000 < 0.97
    else:
        assert 0.92 < n_covered["fixed"] / 2_000 < 0.96


def test_the_command_writes_all_forms(tmp_path: Path) -> None:
    paths = []
    for name, comparison in trials().items():
        paths.append(f"{name}={tmp_path / name}.json")
        (tmp_path / f"{name}.json").write_text(to_json(comparison))
    options = ["--system", "+RNN", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, ["pool", *paths, *options])
    assert result.exit_code == 0, result.output
    assert result.output == (tmp_path / "out" / "pool.txt").read_text()
    assert "12 (Knapp & Hartung 2003) degrees of freedom." in result.output
    note = "Q = 152.23 on 12 degrees of freedom, p = 0.0000; I^2 = 92.1%; tau^2 = 0.3088."
    assert note in result.output
    markdown = (tmp_path / "out" / "pool.md").read_text()
    assert "| fixed effect | -0.43 | 0.040 | -0.51..-0.35 | 0.0000 |" in markdown
    assert "| random effects | -0.71 | 0.181 | -1.11..-0.32 | 0.0019 |" in markdown
    stored = json.loads((tmp_path / "out" / "pool.json").read_text())
    assert stored["random"]["delta"] == pytest.approx(-0.7141, abs=5e-5)
    assert len(stored["rows"]) == 13


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"a": table_of(0.1, 0.1)}, "found 1 table, expected two or more"),
        (
            {"a": table_of(0.1, 0.1), "b": table_of(0.1, None)},
            r"table b has no standard error for \+RNN",
        ),
        (
            {"a": table_of(0.1, 0.1), "b": table_of(0.1, 0.1, None)},
            r"table b has no standard error for \+RNN",
        ),
        (
            {"a": table_of(0.1, 0.0), "b": table_of(0.1, 0.1)},
            r"table a: found a gain of 0.1 with a standard error of 0 for",
        ),
        (
            {"a": table_of(0.1, 0.1, 0.0), "b": table_of(0.1, 0.1)},
            r"table a: found a gain of 0.1 with a standard error of 0.1 for",
        ),
        (
            {"a": table_of(float("nan"), 0.1), "b": table_of(0.1, 0.1)},
            r"table a: found a gain of nan with a standard error of 0.1 for",
        ),
        (
            {"a": table_of(0.1, 0.1), "b": Comparison(table_of(0.1, 0.1).rows[:1])},
            r"sets no system",
        ),
    ],
)
def test_tables_that_cannot_be_pooled(tables: dict[str, Comparison], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pool(tables, "+RNN")


def test_a_second_writer_of_a_pool_is_refused(tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(to_json(table_of(0.1, 0.2)))
        paths.append(f"{name}={tmp_path / name}.json")
    out = tmp_path / "out"
    with held_directory(out):
        before = [*out.iterdir()]
        command = ["pool", *paths, "--system", "+RNN", "--out", str(out)]
        result = CliRunner().invoke(main, command, prog_name="tuning")
        assert [*out.iterdir()] == before
    assert result.exit_code == 1 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"tuning: error: {out}: another command writes there (process")
