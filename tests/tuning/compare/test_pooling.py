"""Pooled gains against published figures: the trials of the BCG vaccine (Colditz et al. 1994)."""

from __future__ import annotations

import json
from math import log
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.lock import held_directory
from tuning.cli import main
from tuning.compare.comparison import Comparison, Contrast, ResultRow
from tuning.compare.gains import pool
from tuning.report.forms import to_json

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


def table(delta: float, error: float | None) -> Comparison:
    contrast = Contrast(delta, (0.0, 0.0), 0.5, 0.5, 0.7, True, error, 9.0)
    scores = (1.0, [60.0, 40.0, 30.0, 20.0], 0.4, 30.0, 60.0, 50.0)
    rows = [
        ResultRow(system, 40.0, 0.1, 40.0, 0.1, against, None, 3, 1, None, *scores, {}, [])
        for system, against in (("Baseline", None), ("+RNN", contrast))
    ]
    return Comparison(rows)


def trials() -> dict[str, Comparison]:
    """Logarithms of relative risks, and their standard errors."""
    return {
        f"trial {number}": table(
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
    assert pooled.random.standard_error == pytest.approx(0.1787, abs=5e-5)
    assert pooled.random.interval == pytest.approx((-1.0644, -0.3638), abs=5e-5)
    assert pooled.random.p_value < 0.0001
    for name in ("fixed_weight", "random_weight"):
        assert sum(getattr(row, name) for row in pooled.rows) == pytest.approx(1)


def test_gains_that_agree_have_one_mean_by_hand() -> None:
    """Errors 0.1 and 0.2 weigh 4 to 1: (4 * 0.3 + 0.4) / 5, and 1 / sqrt(125)."""
    pooled = pool({"a": table(0.3, 0.1), "b": table(0.4, 0.2)}, "+RNN")
    assert pooled.fixed.delta == pytest.approx(0.32)
    assert pooled.fixed.standard_error == pytest.approx(0.0894427, abs=1e-7)
    # 100 * 0.02^2 + 25 * 0.08^2 is less than its one degree of freedom.
    assert pooled.q == pytest.approx(0.2)
    assert (pooled.tau_squared, pooled.i_squared) == (0.0, 0.0)
    assert pooled.random == pooled.fixed
    assert [row.fixed_weight for row in pooled.rows] == pytest.approx([0.8, 0.2])
    assert pool({"a": table(0.3, 0.1), "b": table(0.3, 0.1)}, "+RNN").i_squared == 0.0


def test_the_command_writes_all_forms(tmp_path: Path) -> None:
    paths = []
    for name, comparison in trials().items():
        paths.append(f"{name}={tmp_path / name}.json")
        (tmp_path / f"{name}.json").write_text(to_json(comparison))
    options = ["--system", "+RNN", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, ["pool", *paths, *options])
    assert result.exit_code == 0, result.output
    assert result.output == (tmp_path / "out" / "pool.txt").read_text()
    note = "Q = 152.23 on 12 degrees of freedom, p = 0.0000; I^2 = 92.1%; tau^2 = 0.3088."
    assert note in result.output
    markdown = (tmp_path / "out" / "pool.md").read_text()
    assert "| fixed effect | -0.43 | 0.040 | -0.51..-0.35 | 0.0000 |" in markdown
    assert "| random effects | -0.71 | 0.179 | -1.06..-0.36 | 0.0001 |" in markdown
    stored = json.loads((tmp_path / "out" / "pool.json").read_text())
    assert stored["random"]["delta"] == pytest.approx(-0.7141, abs=5e-5)
    assert len(stored["rows"]) == 13


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"a": table(0.1, 0.1)}, "found 1 table, expected two or more"),
        ({"a": table(0.1, 0.1), "b": table(0.1, None)}, r"table b has no standard error for \+RNN"),
        ({"a": table(0.1, 0.0), "b": table(0.1, 0.1)}, r"table a: found a standard error of 0 for"),
        ({"a": table(0.1, 0.1), "b": Comparison(table(0.1, 0.1).rows[:1])}, r"sets no system"),
    ],
)
def test_tables_that_cannot_be_pooled(tables: dict[str, Comparison], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pool(tables, "+RNN")


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(to_json(table(0.1, 0.2)))
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
