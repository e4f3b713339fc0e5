"""Forms of a column against sums by hand, and in whole tables."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import write_lines
from moses_bridge.formats.phrase_table import read_rows
from rescorer.contract.scorer import Batch, NamedScorer
from rescorer.models.controls import RandomScorer
from rescorer.tables.column import ColumnConfig, add_columns, parse_columns
from rescorer.tables.form import over_targets, per_word
from rescorer.tables.merging import merged
from rescorer.tables.prediction import KnownOfRows
from rescorer.tables.report import ColumnFormat, read_sidecar
from rescorer.tables.rows import Shard
from rescorer.tables.source_table import SourceTable

NOISE = NamedScorer("noise", RandomScorer(3), "noise 3")
ALL_FORMS = parse_columns("sum,per-word,over-targets,length-neutral,residual")


def known(sources: Sequence[bytes], targets: Sequence[bytes]) -> KnownOfRows:
    return KnownOfRows(sources, targets, np.empty((len(sources), 0)))


def test_per_word_counts_the_end_of_the_phrase() -> None:
    rows = known([b"a", b"a"], [b"x y", b""])
    assert per_word(rows, np.array([-6.0, -6.0])).tolist() == [-2.0, -6.0]


def test_over_targets_is_a_probability_among_those_of_the_table() -> None:
    rows = known([b"a", b"a", b"b", b"c", b"c", b"c"], [b"x"] * 6)
    values = np.log([0.1, 0.3, 1e-9, 0.2, 0.2, 0.4])
    expected = [0.25, 0.75, 1.0, 0.25, 0.25, 0.5]
    np.testing.assert_allclose(np.exp(over_targets(rows, values)), expected)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    lines = []
    for number in range(60):
        source = b" ".join(b"s%d" % number for _ in range(rng.integers(1, 4)))
        for target in range(rng.integers(1, 6)):
            words = b" ".join(b"t%d" % target for _ in range(rng.integers(1, 5)))
            scores = b" ".join(b"%.6g" % score for score in rng.uniform(1e-6, 1, 4))
            lines.append(b" ||| ".join([source, words, scores, b"0-0"]))
    write_lines(tmp_path / "table", lines)
    return tmp_path / "table"


def scored(table: Path, out: Path, config: ColumnConfig, shard: Shard | None = None) -> Path:
    add_columns(SourceTable.open(str(table), shard=shard), str(out), [NOISE], config)
    return out


def logs(table: Path) -> NDArray[np.float64]:
    return np.log([row.scores for row in read_rows(table)])


def test_all_forms_in_one_table(table: Path, tmp_path: Path) -> None:
    out = scored(table, tmp_path / "out", ColumnConfig(ALL_FORMS, block_rows=10))
    rows = [*read_rows(table)]
    values = NOISE.scorer.values(Batch([row.source for row in rows], [row.target for row in rows]))
    added = logs(out)[:, 4:]
    np.testing.assert_allclose(added[:, 0], values, rtol=1e-5)
    n_steps = [len(row.target.split()) + 1 for row in rows]
    np.testing.assert_allclose(added[:, 1], values / n_steps, rtol=1e-5)
    for source in {row.source for row in rows}:
        places = [place for place, row in enumerate(rows) if row.source == source]
        assert math.isclose(np.exp(added[places, 2]).sum(), 1.0, rel_tol=1e-5)
    _, report = read_sidecar(out)
    for place, form in ((3, "lengths"), (4, "lengths and scores")):
        prediction = report.predictions[place]
        assert (prediction.predictors, prediction.n_rows) == (form, len(rows))
        features = KnownOfRows([r.source for r in rows], [r.target for r in rows], logs(table))
        left = prediction.residual(features, values)
        np.testing.assert_allclose(added[:, place], left, atol=1e-5)
        assert left.max() > 0 > left.min()  # scores above 1 stand in the table
        assert abs(left.mean()) < 1e-9


def test_a_residual_has_no_more_of_what_the_table_knows(table: Path, tmp_path: Path) -> None:
    config = ColumnConfig(parse_columns("residual"))
    out = scored(table, tmp_path / "out", config)
    left = logs(out)[:, 4]
    for column in (1, 2, 3):
        assert abs(np.corrcoef(left, logs(table)[:, column])[0, 1]) < 1e-4


@pytest.mark.parametrize("column_format", ["prob", "log"])
def test_logarithms_are_taken_as_they_are(
    table: Path, tmp_path: Path, column_format: ColumnFormat
) -> None:
    lines = table.read_bytes().split(b"\n")[:-1]
    for number, (line, row) in enumerate(zip(lines, logs(table), strict=True)):
        columns = line.split(b" ||| ")
        columns[2] = b" ".join(b"%.9g" % value for value in row)
        lines[number] = b" ||| ".join(columns)
    write_lines(tmp_path / "logs", lines)
    columns = parse_columns("residual")
    path = table if column_format == "prob" else tmp_path / "logs"
    scored(path, tmp_path / "out", ColumnConfig(columns, column_format))
    scored(table, tmp_path / "expected", ColumnConfig(columns))
    found, expected = (
        read_sidecar(tmp_path / name)[1].predictions[0].coefficients for name in ("out", "expected")
    )
    assert found == pytest.approx(expected, abs=1e-5)


def test_a_sample_is_enough_and_shards_use_that_of_the_whole_table(
    table: Path, tmp_path: Path
) -> None:
    config = ColumnConfig(ALL_FORMS, fit_rows=50)
    whole = scored(table, tmp_path / "whole", config)
    assert read_sidecar(whole)[1].predictions[3].n_rows == 50
    parts = [
        scored(table, tmp_path / f"part{number}", config, Shard(number, 3)) for number in (3, 1, 2)
    ]
    merged(parts, tmp_path / "merged")
    assert (tmp_path / "merged").read_bytes() == whole.read_bytes()
    record = json.loads((tmp_path / "merged.json").read_text())
    assert "prediction" in record["columns"][3] and "prediction" not in record["columns"][0]


class StopsOnce:
    """Noise that stops in its third call: the first one is for the fit."""

    shortlist = None
    needs_links = False

    def __init__(self) -> None:
        self.n_calls = 0

    def values(self, asked: Batch) -> NDArray[np.float64]:
        self.n_calls += 1
        if self.n_calls == 3:
            raise KeyboardInterrupt
        return NOISE.scorer.values(asked)


def test_an_interrupted_table_is_continued_with_the_same_fit(table: Path, tmp_path: Path) -> None:
    config = ColumnConfig(ALL_FORMS, block_rows=40, fit_rows=50)
    whole, out = tmp_path / "whole", tmp_path / "out"
    stopping = StopsOnce()
    named = NamedScorer("noise", stopping, "noise 3")
    with pytest.raises(KeyboardInterrupt):
        add_columns(SourceTable.open(str(table)), str(out), [named], config)
    n_begun = stopping.n_calls  # another block may have begun when one stops
    add_columns(SourceTable.open(str(table)), str(out), [named], config, resume=True)
    n_resumed = stopping.n_calls - n_begun
    add_columns(SourceTable.open(str(table)), str(whole), [named], config)
    n_whole = stopping.n_calls - n_begun - n_resumed
    assert n_resumed == n_whole - 1  # the fit once more, and not the block that was done
    assert out.read_bytes() == whole.read_bytes()


def test_a_table_that_was_begun_with_another_fit_is_not_continued(
    table: Path, tmp_path: Path
) -> None:
    out, config = tmp_path / "out", ColumnConfig(ALL_FORMS, block_rows=40, fit_rows=60)
    named = NamedScorer("noise", StopsOnce(), "noise 3")
    with pytest.raises(KeyboardInterrupt):
        add_columns(SourceTable.open(str(table)), str(out), [named], replace(config, fit_rows=50))
    add_columns(SourceTable.open(str(table)), str(out), [named], config, resume=True)
    assert out.read_bytes() == scored(table, tmp_path / "whole", config).read_bytes()


def test_scores_that_are_replaced_are_not_those_of_moses(table: Path, tmp_path: Path) -> None:
    config = ColumnConfig(parse_columns("residual"), n_replaced=1)
    with pytest.raises(InputError, match=r"table: found 3 scores, expected Moses's 4"):
        scored(table, tmp_path / "out", config)


def test_what_cannot_be_fitted_is_refused(table: Path, tmp_path: Path) -> None:
    poor = tmp_path / "poor"
    write_lines(poor, [b"a ||| b ||| 0.5 0.5 0.5", b"a ||| c ||| 0.5 0.5 0.5"])
    with pytest.raises(InputError, match=r"poor: found 3 scores, expected Moses's 4"):
        scored(poor, tmp_path / "out", ColumnConfig(parse_columns("sum,residual")))
    scored(poor, tmp_path / "out", ColumnConfig(parse_columns("length-neutral")))
    stream = SourceTable.open(str(table))
    stream.path = "-"
    with pytest.raises(ConfigError, match="length-neutral: fitted on the table's rows first"):
        add_columns(stream, "-", [NOISE], ColumnConfig(parse_columns("length-neutral")))


def test_a_bad_row_in_the_sample_is_named_by_its_line(table: Path, tmp_path: Path) -> None:
    lines = table.read_bytes().split(b"\n")[:-1]
    lines[40] = b"a ||| b ||| 0.5"
    write_lines(tmp_path / "bad", lines)
    with pytest.raises(InputError, match=r"bad:41: found 1 score"):
        scored(tmp_path / "bad", tmp_path / "out", ColumnConfig(parse_columns("residual")))
    assert not (tmp_path / "out").exists()


def test_a_bad_row_in_a_part_of_the_rows_is_named_by_its_line(tmp_path: Path) -> None:
    """From the 100th row on all are bad; so few rows are drawn that none is the 100th of them."""
    table = tmp_path / "table"
    write_lines(table, [b"a ||| b ||| 1 1 1 1"] * 99 + [b"a ||| b ||| 1"] * 99)
    with pytest.raises(InputError, match="found 1 score") as caught:
        scored(table, tmp_path / "out", ColumnConfig(parse_columns("residual"), fit_rows=20))
    assert caught.value.line is not None and caught.value.line >= 100
