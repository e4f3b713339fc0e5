"""The sample of a scored table: its scores by hand, its classes, and what it refuses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scipy.stats import spearmanr

from moses_bridge.base.errors import InputError
from tuning.report.page.scored_pairs import CLASSES, class_name, sample_scored_pairs
from tuning.report.page.table import correlation_table

if TYPE_CHECKING:
    from tests.tuning.report.page.conftest import Maker


def describe(table: Path, columns: list[str], column_format: str = "prob") -> None:
    content = {
        "n_old_scores": 4,
        "columns": [{"column": column, "scorer": f"net{column}"} for column in columns],
        "settings": {"column_format": column_format},
    }
    Path(f"{table}.json").write_text(json.dumps(content))


def test_all_of_a_small_table(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text(
        "a b ||| x ||| 0.1 0.2 0.5 0.3 0.25 ||| ||| 9 9 3\n"
        "c ||| ||| 0.1 0.2 1 0.3 0.125\n"
        "d ||| y ||| 0.1 0.2 0.25 0.3 1 ||| 0-0 ||| 9 9 1000\n"
    )
    sample = sample_scored_pairs(table, 100, 1)
    assert list(sample.classes) == [1, 2, 100]
    (pair,) = sample.classes[2]
    assert (pair.source, pair.target, pair.count) == ("a b", "x", 3)
    assert (pair.table_score, pair.model_score) == (math.log(0.5), math.log(0.25))
    (without,) = sample.classes[1]
    assert (without.count, without.model_score) == (0, math.log(0.125))
    assert sample.n_rows == 3
    assert sample.correlation(1) is None


def test_the_column_that_the_report_names(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("a ||| x ||| 0.1 0.2 0.5 0.3 7.5 -2.5 -9 ||| ||| 9 9 3\n")
    describe(table, ["unknown-words", "sum", "per-word"], "log")
    sample = sample_scored_pairs(table, 100, 1)
    assert (sample.column, sample.model) == (5, "netsum")
    (pair,) = sample.classes[2]
    assert (pair.table_score, pair.model_score) == (0.5, -2.5)


def test_a_draw_is_even_over_classes_and_rows(maker: type[Maker], tmp_path: Path) -> None:
    table = maker.scored_table(tmp_path / "table", 2000)
    one, again = (sample_scored_pairs(table, 100, 5) for _ in range(2))
    assert one == again
    sizes = {lowest: len(pairs) for lowest, pairs in one.classes.items()}
    assert sizes == dict.fromkeys((1, 2, 4, 10, 100), 20)
    places = [int(pair.source[4:]) for seed in range(30) for pair in _drawn(table, seed)]
    assert len(places) == 3000
    assert sum(places) / len(places) == pytest.approx(999.5, abs=60)  # 5 standard errors of 11
    pairs = sample_scored_pairs(table, 2000, 1).classes[4]
    expected = spearmanr([p.table_score for p in pairs], [p.model_score for p in pairs]).statistic
    assert sample_scored_pairs(table, 2000, 1).correlation(4) == pytest.approx(expected)


def _drawn(table: Path, seed: int) -> list:  # type: ignore[type-arg]
    classes = sample_scored_pairs(table, 100, seed).classes
    return [pair for pairs in classes.values() for pair in pairs]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a ||| x ||| 0.1 0.2 0.5 0.3", "4 scores"),
        ("a ||| x ||| 0.1 0.2 0 0.3 0.5", "the scores 0 and 0.5"),
        ("a ||| x", "2 columns"),
    ],
)
def test_rows_without_a_model_are_refused(tmp_path: Path, line: str, found: str) -> None:
    table = tmp_path / "table"
    table.write_text(line + "\n")
    with pytest.raises(InputError, match=f"table:1: found .*{found}"):
        sample_scored_pairs(table, 100, 1)


@pytest.mark.parametrize("text", ["[]", '{"columns": []}', '{"n_old_scores": 4, "settings": {}}'])
def test_another_json_beside_the_table_is_refused(
    maker: type[Maker], tmp_path: Path, text: str
) -> None:
    table = maker.scored_table(tmp_path / "table", 3)
    Path(f"{table}.json").write_text(text)
    with pytest.raises(InputError, match=r"table\.json: .*what rescorer score writes"):
        sample_scored_pairs(table, 100, 1)


def test_a_table_with_counts_of_words_alone_is_refused(maker: type[Maker], tmp_path: Path) -> None:
    table = maker.scored_table(tmp_path / "table", 3)
    describe(table, ["unknown-words"])
    with pytest.raises(InputError, match="no column of probabilities"):
        sample_scored_pairs(table, 100, 1)


def test_classes_are_named_by_their_first_and_last_number() -> None:
    assert [class_name(lowest) for lowest in CLASSES] == ["1", "2–3", "4–9", "10–99", "100+"]
    assert class_name(2, (2, 3)) == "2"


def test_ten_pairs_have_a_rank_correlation(tmp_path: Path) -> None:
    """Spearman's rho of 1 to 10 and the same with two neighbours in turn is 1 - 6 * 2 / (10 * 99)."""
    table = tmp_path / "table"
    row = "a ||| x ||| 1 1 0.{} 1 0.{} ||| ||| 9 9 {}\n"
    rows = [row.format(10 + n, 10 + n + (n == 3) - (n == 4), 5) for n in range(10)]
    table.write_text("".join(rows + [row.format(10 + n, 10 + n, 1) for n in range(9)]))
    shown = correlation_table(sample_scored_pairs(table, 100, 1))
    assert [[cell.text for cell in row] for row in shown.rows] == [
        ["1", "9", ""],
        ["4–9", "10", "0.988"],
    ]
