"""Pruned tables: which rows stay, against an order by hand, and that they stay as they are."""

from __future__ import annotations

import gzip
from fractions import Fraction
from math import comb, log
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import fisher_exact

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.cli import main
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.tables.prune import PruneConfig, PruneReport, prune_table, significance

# Score 2 is unlike score 1; the counts are count(target) count(source) count(source, target).
ROWS = [
    b"a ||| x ||| 0.9 0.1 ||| 0-0 ||| 20 20 18",
    b"a ||| y  ||| 0.1 0.2 ||| ||| 1 20 1",
    b"a ||| z ||| 0.2 0.3 ||| ||| 9 20 1",
    b"a b ||| x y ||| 0.5 0.4 ||| ||| 1 1 1",
    b"a b ||| x z ||| 0.4 0.5 ||| ||| 1 1 1\r",
    b"b ||| v ||| 0.01 0.6 ||| ||| 30 30 1",
    b"b ||| w ||| 0.02 0.05 ||| ||| 30 30 1",
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "table.gz").write_bytes(gzip.compress(b"".join(row + b"\n" for row in ROWS)))
    return tmp_path / "table.gz"


def kept(table: Path, keep: float, *by: str, n: int | None = 1000) -> list[int]:
    """The numbers of the rows that stay."""
    out = table.parent / "out"
    prune_table(table, out, PruneConfig(keep, by, n))
    lines = [*read_lines(out)]
    assert [ROWS[ROWS.index(line)] for line in lines] == lines
    return [ROWS.index(line) for line in lines]


def test_the_best_rows_stay_in_their_order(table: Path) -> None:
    # By score 1 the order is 0, 3, 4, 2, 1, 6, 5; "a" and "b" keep their best, 0 and 6.
    assert kept(table, 3 / 7, "1") == [0, 3, 6]
    assert kept(table, 5 / 7, "1") == [0, 2, 3, 4, 6]
    assert kept(table, 1.0, "1") == [*range(7)]


def test_words_keep_a_translation(table: Path) -> None:
    assert kept(table, 0.0, "1") == [0, 6]
    assert kept(table, 0.0, "2") == [2, 5]


def test_significance_and_then_a_score(table: Path) -> None:
    # 18 of 20 is surest, then 1 of 1 and 1 (twice); 1 of 20 and 1; 1 of 20 and 9; 1 of 30 and 30 (twice).
    assert kept(table, 4 / 7, "significance") == [0, 3, 4, 5]
    assert kept(table, 3 / 7, "significance", "1") == [0, 3, 6]
    assert kept(table, 3 / 7, "significance", "2") == [0, 4, 5]
    assert kept(table, 5 / 7, "significance", "2") == [0, 1, 3, 4, 5]


def test_rows_that_are_equal_in_all_stay_by_their_place(table: Path, tmp_path: Path) -> None:
    write_lines(table.parent / "even", [b"a b ||| %d ||| 1" % number for number in range(10)])
    prune_table(tmp_path / "even", tmp_path / "out", PruneConfig(0.3, ("1",)))
    targets = [line.split(b" ||| ")[1] for line in read_lines(tmp_path / "out")]
    assert targets == [b"0", b"1", b"2"]


def test_without_a_number_of_occurrences_those_of_the_table_count(table: Path) -> None:
    assert kept(table, 3 / 7, "significance", "1", n=None) == [0, 3, 6]


def test_the_command_changes_the_ini(table: Path, tmp_path: Path) -> None:
    ini = tmp_path / "moses.ini"
    line = f"PhraseDictionaryMemory name=TM0 num-features=2 path={table}"
    ini.write_text(f"[feature]\n{line}\n[weight]\nTM0= 0.2 0.3\n")
    out, ini_out = tmp_path / "new" / "table.gz", tmp_path / "new" / "moses.ini"
    arguments = ["prune", table, "--out", out, "--by", "significance,1", "--share", "0.5"]
    arguments += ["--ini", ini, "--ini-out", ini_out]
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    assert "4 of 7 rows; 2 words keep their best one" in result.output
    written = read_ini(ini_out)
    assert written.feature("TM0").arguments["path"] == str(out)
    assert written.weights == {"TM0": (0.2, 0.3)}
    assert len([*read_lines(out)]) == 4


def test_what_rows_are_ordered_by_must_be_there(table: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"table\.gz:1: found 2 scores, expected a score 5"):
        kept(table, 0.5, "5")
    write_lines(tmp_path / "poor", [b"a ||| b ||| 0.5"])
    with pytest.raises(InputError, match=r"poor:1: found ''?, expected count\(target\)"):
        kept(tmp_path / "poor", 0.5, "significance")
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="no rows"):
        kept(tmp_path / "empty", 0.5, "1")
    with pytest.raises(InputError, match="at most n_occurrences, 5"):
        kept(table, 0.5, "significance", n=5)
    assert not (tmp_path / "out").exists()


def test_a_pair_is_no_more_frequent_than_its_sides(tmp_path: Path) -> None:
    """Counts of combined tables may say so; the second pair is as sure as the first one."""
    rows = [
        b"a x ||| u ||| 1 1 1 1 ||| 0-0 ||| 2 2 2",
        b"b x ||| v ||| 1 1 1 1 ||| 0-0 ||| 2 2 2.5",
        b"c x ||| w ||| 1 1 1 1 ||| 0-0 ||| 2 2 1",
    ]
    write_lines(tmp_path / "table", rows)
    for share, kept in ((0.34, rows[:1]), (0.67, rows[:2])):
        prune_table(tmp_path / "table", tmp_path / "out", PruneConfig(share, n_occurrences=20))
        assert [*read_lines(tmp_path / "out")] == kept


@pytest.mark.parametrize("by", [(), ("rnn",), ("0",), ("-1",)])
def test_an_order_is_significance_or_a_score(by: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="by: "):
        PruneConfig(0.5, by)
    with pytest.raises(ConfigError, match=r"share is 1\.5; the largest value is 1"):
        PruneConfig(1.5)


def test_files_are_named_once_and_in_pairs(table: Path, tmp_path: Path) -> None:
    ini = tmp_path / "moses.ini"
    ini.write_text("[feature]\nPhraseDictionaryMemory name=TM0 num-features=2 path=other\n")
    with pytest.raises(ConfigError, match="named twice"):
        prune_table(table, table, PruneConfig())
    with pytest.raises(ConfigError, match="belong together"):
        prune_table(table, tmp_path / "out", PruneConfig(), ini)
    with pytest.raises(InputError, match="no PhraseDictionaryMemory with path"):
        prune_table(table, tmp_path / "out", PruneConfig(), ini, tmp_path / "new.ini")
    assert not (tmp_path / "out").exists()
    assert prune_table(table, tmp_path / "out", PruneConfig(0.0, ("1",))) == PruneReport(7, 2, 2)


def of(joint: int, source: int, target: int, n: int) -> float:
    arrays = (np.array([float(count)]) for count in (joint, source, target))
    return float(significance(*arrays, n)[0])


@pytest.mark.parametrize(
    ("joint", "source", "target", "n"),
    [(1, 1, 1, 1000), (3, 5, 4, 200), (1, 50, 40, 200), (9, 50, 40, 200), (30, 40, 31, 5000)],
)
def test_it_is_that_of_scipy(joint: int, source: int, target: int, n: int) -> None:
    table = [[joint, source - joint], [target - joint, n - source - target + joint]]
    expected = fisher_exact(table, alternative="greater").pvalue
    assert of(joint, source, target, n) == pytest.approx(-np.log(expected), rel=1e-9)


@pytest.mark.parametrize(
    ("joint", "source", "target", "n"), [(2, 3, 4, 9), (0, 3, 4, 9), (4, 6, 7, 9), (5, 6, 7, 9)]
)
def test_it_is_the_sum_of_fractions(joint: int, source: int, target: int, n: int) -> None:
    tail = sum(
        Fraction(comb(source, k) * comb(n - source, target - k), comb(n, target))
        for k in range(joint, min(source, target) + 1)
    )
    assert of(joint, source, target, n) == pytest.approx(-log(tail), abs=1e-9)


def test_a_pair_seen_once_has_log_n() -> None:
    """Johnson et al. (2007), section 3.1: the constant alpha."""
    assert of(1, 1, 1, 1_000_000) == pytest.approx(log(1e6))


def test_very_sure_pairs_do_not_become_infinite() -> None:
    value = of(5000, 5000, 5000, 10_000_000)
    assert np.isfinite(value) and value > 30_000


def test_equal_counts_are_computed_once_and_put_back() -> None:
    counts = np.array([[1, 9, 9], [2, 5, 3], [1, 9, 9], [1, 1, 1]], np.float64)
    found = significance(*counts.T, 100)
    assert found[0] == found[2] < found[1]
    assert found[3] == pytest.approx(log(100))
