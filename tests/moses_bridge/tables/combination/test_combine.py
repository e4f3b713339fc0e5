"""Combined tables against calculations by hand, and against bytes that Moses's own programs wrote."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.cli import main
from moses_bridge.tables.combination import combine, merged_tables, table_values
from moses_bridge.tables.combination.combine import (
    CombineConfig,
    CombineReport,
    combine_tables,
    read_dev_pairs,
)

# p(f|e) lex(f|e) p(e|f) lex(e|f) ||| links ||| count(e) count(f) count(f, e)
FIRST = [
    b"a ||| x ||| 0.6 0.5 0.75 0.4 ||| 0-0 ||| 5 4 3 ||| |||",
    b"a ||| y ||| 1 0.2 0.25 0.1 ||| 0-0 ||| 1 4 1 ||| |||",
    b"b ||| x ||| 0.4 0.3 1 0.9 ||| 0-0 ||| 5 2 2 ||| |||",
]
SECOND = [
    b"a c ||| x ||| 0.5 0.125 1 0.5 ||| 0-0 1-0 ||| 2 1 1 ||| |||",
    b"a ||| x ||| 0.5 0.25 0.2 0.8 ||| 0-0 ||| 2 5 1 ||| s 1 |||",
    b"a ||| z ||| 1 0.6 0.8 0.7 ||| 0-0 ||| 4 5 4 ||| |||",
]
KEYS = [b"a c ||| x", b"a ||| x", b"a ||| y", b"a ||| z", b"b ||| x"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read, joined and written a few at a time."""
    monkeypatch.setattr(combine, "PAIRS_AT_ONCE", 2)
    monkeypatch.setattr(merged_tables, "ROWS_AT_ONCE", 1)
    monkeypatch.setattr(table_values, "ROWS_AT_ONCE", 1)


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    write_lines(tmp_path / "first", FIRST)
    (tmp_path / "second.gz").write_bytes(gzip.compress(b"".join(row + b"\n" for row in SECOND)))
    return [tmp_path / "first", tmp_path / "second.gz"]


def combined(
    tables: list[Path], config: CombineConfig, dev: Path | None = None
) -> tuple[list[bytes], CombineReport]:
    out = tables[0].with_name("out")
    report = combine_tables(tables, out, config, dev)
    return [*read_lines(out)], report


def scores(rows: list[bytes]) -> list[list[float]]:
    return [[*map(float, row.split(b"|||")[2].split())] for row in rows]


def test_fill_up_as_combine_ptables_writes_it(tables: list[Path]) -> None:
    rows, report = combined(tables, CombineConfig("fill-up"))
    # combine-ptables.pl --mode=fillup, with Perl 5.36, on these two tables
    assert rows == [
        b"a c ||| x ||| 0.5 0.125 1 0.5 2.718 ||| 0-0 1-0 ||| 2 1 1 ||| |||",
        b"a ||| x ||| 0.6 0.5 0.75 0.4 1 ||| 0-0 ||| 5 4 3 ||| |||",
        b"a ||| y ||| 1 0.2 0.25 0.1 1 ||| 0-0 ||| 1 4 1 ||| |||",
        b"a ||| z ||| 1 0.6 0.8 0.7 2.718 ||| 0-0 ||| 4 5 4 ||| |||",
        b"b ||| x ||| 0.4 0.3 1 0.9 1 ||| 0-0 ||| 5 2 2 ||| |||",
    ]
    assert report.n_first == [3, 2] and report.n_rows == 5 and not report.weights


def test_a_third_table_has_a_column_of_its_own(tables: list[Path], tmp_path: Path) -> None:
    write_lines(tmp_path / "third", [b"a ||| y ||| 1 1 1 1", b"d ||| y ||| 1 1 1 1"])
    rows, report = combined([*tables, tmp_path / "third"], CombineConfig("fill-up"))
    assert [row[4:] for row in scores(rows)] == [
        [2.718, 1],
        [1, 1],
        [1, 1],
        [2.718, 1],
        [1, 1],
        [1, 2.718],
    ]
    assert report.n_first == [3, 2, 1]


def test_first_found_and_back_off_keep_rows_as_they_are(tables: list[Path]) -> None:
    rows, _ = combined(tables, CombineConfig("first-found"))
    assert rows == [SECOND[0], *FIRST[:2], SECOND[2], FIRST[2]]
    rows, report = combined(tables, CombineConfig("back-off"))
    assert rows == [SECOND[0], *FIRST]  # "a" is in the first table, "a c" is not
    assert report.n_first == [3, 1]


def test_back_off_goes_from_table_to_table(tables: list[Path], tmp_path: Path) -> None:
    """Of "a c" the second table is the first one, of "d" the third one."""
    third = [b"a c ||| y ||| 1 1 1 1", b"a ||| w ||| 1 1 1 1", b"d ||| y ||| 1 1 1 1"]
    write_lines(tmp_path / "third", third)
    rows, report = combined([*tables, tmp_path / "third"], CombineConfig("back-off"))
    assert rows == [SECOND[0], *FIRST, third[2]]
    assert report.n_first == [3, 1, 1]


def test_reordering_tables_are_taken_by_pair_or_by_source(tmp_path: Path) -> None:
    write_lines(tmp_path / "r1", [b"a ||| x ||| 0.2 0.2 0.6 0.2 0.2 0.6"])
    write_lines(
        tmp_path / "r2", [b"a ||| y ||| 0.4 0.4 0.2 0.4 0.4 0.2", b"b ||| x ||| 1 1 1 1 1 1"]
    )
    both = [tmp_path / "r1", tmp_path / "r2"]
    assert len(combined(both, CombineConfig("first-found"))[0]) == 3
    assert len(combined(both, CombineConfig("back-off"))[0]) == 2


def test_a_plain_mixture(tables: list[Path]) -> None:
    """As tmcombine.py of Moses does by default: what a table lacks has the probability 0."""
    rows, _ = combined(tables, CombineConfig("mixture", ((0.75, 0.25),), "zero"))
    assert [row.split(b" ||| ")[0] + b" ||| " + row.split(b" ||| ")[1] for row in rows] == KEYS
    assert rows[1] == b"a ||| x ||| 0.575 0.4375 0.6125 0.5 ||| 0-0 ||| 5 4 3 ||| |||"
    assert [scores(rows)[0], *scores(rows)[2:]] == [
        [0.125, 0.03125, 0.25, 0.125],
        [0.75, 0.15, 0.1875, 0.075],
        [0.25, 0.15, 0.2, 0.175],
        [0.3, 0.225, 0.75, 0.675],
    ]


def test_a_renormalised_mixture_leaves_out_tables_that_lack_the_condition(
    tables: list[Path],
) -> None:
    """As tmcombine.py with normalized=True and normalize_s_given_t="t"."""
    rows, _ = combined(tables, CombineConfig("mixture", ((0.75, 0.25),)))
    assert scores(rows) == [
        [0.125, 0.03125, 1, 0.5],  # both have x; the first lacks "a c"
        [0.575, 0.4375, 0.6125, 0.5],
        [1, 0.2, 0.1875, 0.075],  # the second table lacks y, and has a
        [1, 0.6, 0.2, 0.175],
        [0.3, 0.225, 1, 0.9],
    ]


def test_each_score_may_have_its_weights(tables: list[Path]) -> None:
    lists = ((0.75, 0.25), (0.5, 0.5), (0.25, 0.75), (0.125, 0.875))
    rows, report = combined(tables, CombineConfig("mixture", lists, "zero"))
    assert scores(rows)[1] == [0.575, 0.375, 0.3375, 0.75]
    assert report.weights == lists


def test_counts_are_added(tables: list[Path]) -> None:
    rows, _ = combined(tables, CombineConfig("counts", ((1, 2),)))
    # x: 5 + 2·2 = 9, a: 4 + 2·5 = 14, the pair: 3 + 2·1 = 5; lex(f|e) = (5·0.5 + 4·0.25) / 9,
    # lex(e|f) = (4·0.4 + 10·0.8) / 14
    assert rows[1] == b"a ||| x ||| 0.555556 0.388889 0.357143 0.685714 ||| 0-0 ||| 9 14 5 ||| |||"
    assert rows[3] == b"a ||| z ||| 1 0.6 0.571429 0.7 ||| 0-0 ||| 8 14 8 ||| |||"
    assert rows[0] == b"a c ||| x ||| 0.222222 0.125 1 0.5 ||| 0-0 1-0 ||| 9 2 2 ||| |||"
    probs = scores(rows)
    assert sum(row[2] for row in probs[1:4]) == pytest.approx(1, abs=1e-5)
    assert probs[0][0] + probs[1][0] + probs[4][0] == pytest.approx(1, abs=1e-5)


def test_counts_weigh_as_much_by_default(tables: list[Path]) -> None:
    rows, report = combined(tables, CombineConfig("counts"))
    assert rows[1].split(b" ||| ")[4] == b"7 9 4"
    assert report.weights == ((1.0, 1.0),) * 4


def test_added_counts_keep_ten_digits(tables: list[Path]) -> None:
    rows, _ = combined(tables, CombineConfig("counts", ((1, 1.23456789),)))
    assert rows[1].split(b" ||| ")[4] == b"7.46913578 10.17283945 4.23456789"


@pytest.mark.parametrize("unknown", ["renormalise", "zero"])
def test_weights_are_fitted_to_each_score(
    tables: list[Path], tmp_path: Path, unknown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combine, "PAIRS_AT_ONCE", 1)
    dev = tmp_path / "extract"
    write_lines(
        dev, [b"a ||| x ||| 0-0", b"q ||| x ||| 0-0", b"a ||| z ||| 0-0", b"a ||| x ||| 0-0"]
    )
    rows, report = combined(tables, CombineConfig("mixture", unknown=unknown), dev)  # type: ignore[arg-type]
    # p(e|f) with the weight w of the second table: (0.75 - 0.55 w)² 0.8 w is largest at w = 0.75 / 1.65
    assert report.weights[2] == pytest.approx((1 - 0.75 / 1.65, 0.75 / 1.65), abs=1e-4)
    # p(f|e): (0.6 - 0.1 w)² w rises up to 1, but renormalised the first table has no say about z
    assert report.weights[0][1] == pytest.approx(1 if unknown == "zero" else 0, abs=1e-3)
    assert len(rows) == 5 and len(report.cross_entropies) == 4


def test_a_table_of_a_text_gives_the_same_weights_as_its_pairs(
    tables: list[Path], tmp_path: Path
) -> None:
    write_lines(tmp_path / "extract", [b"a ||| x ||| 0-0"] * 3 + [b"a ||| z ||| 0-0"])
    write_lines(
        tmp_path / "table",
        [b"a ||| x ||| 1 1 1 1 ||| 0-0 ||| 3 4 3", b"a ||| z ||| 1 1 1 1 ||| 0-0 ||| 1 4 1"],
    )
    _, of_pairs = combined(tables, CombineConfig("counts"), tmp_path / "extract")
    _, of_table = combined(tables, CombineConfig("counts"), tmp_path / "table")
    assert of_pairs.weights == of_table.weights and len(of_table.cross_entropies) == 1
    assert max(of_table.weights[0]) == 1


def test_all_rows_of_a_pair_of_a_text_count(tmp_path: Path) -> None:
    rows = [b"a ||| x ||| 0-0", b"b ||| x ||| 0-0", b" a |||x ||| 0-0 0-1"]
    write_lines(tmp_path / "extract", rows)
    assert read_dev_pairs(tmp_path / "extract") == {(b"a", b"x"): 2, (b"b", b"x"): 1}
    row = b"a ||| x ||| 1 1 1 1 ||| 0-0 ||| 3 4 2.5"
    write_lines(tmp_path / "table", [row, row])
    assert read_dev_pairs(tmp_path / "table") == {(b"a", b"x"): 5}


def test_the_command(tables: list[Path], tmp_path: Path) -> None:
    arguments = ["combine", *map(str, tables), "--out", str(tmp_path / "new" / "out.gz")]
    result = CliRunner().invoke(
        main, [*arguments, "--how", "mixture", "--corpus-weights", "0.75,0.25"]
    )
    assert result.exit_code == 0, result.output
    assert "5 rows, first found in the tables: 3, 2" in result.output
    assert "weights: 0.75,0.25;0.75,0.25;" in result.output
    assert len([*read_lines(tmp_path / "new" / "out.gz")]) == 5
    result = CliRunner().invoke(main, [*arguments, "--how", "counts", "--corpus-weights", "1;x"])
    assert result.exit_code == 1 and "found --corpus-weights 1;x, expected numbers" in result.output


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([FIRST[1], FIRST[0]], r"bad:2: found 'a \|\|\| x \|\|\|' behind .*Sort it"),
        ([FIRST[0], FIRST[0]], r"bad:2: found 'a \|\|\| x \|\|\|' twice"),
        ([b"a ||| x ||| 1 1 1 1 1"], r"bad:1: found 5 scores, expected 4, as in .*first"),
        ([FIRST[0], b"a ||| y ||| 1 1"], r"bad:2: found 2 scores, expected 4"),
        ([FIRST[0], b"a ||| y ||| 1 1 1 one"], "bad:2: found the score 'one'"),
        ([FIRST[0], b"a ||| y ||| 1 1 1 1 ||| 0-0"], r"bad:2: found '', expected count\(target\)"),
        ([b"a ||| x ||| 1 1 1 1 ||| 0-0 ||| 0 1 1"], "bad:1: found a count of 0"),
        (
            [FIRST[0], FIRST[2].replace(b"5 2 2", b"6 2 2")],
            r"bad:2: found a count\(target\) of 6, expected 5 as in row 1, which",
        ),
        ([], "bad: found no rows"),
    ],
)
def test_bad_tables(tables: list[Path], tmp_path: Path, rows: list[bytes], message: str) -> None:
    write_lines(tmp_path / "bad", rows)
    with pytest.raises(InputError, match=message):
        combined([tables[0], tmp_path / "bad"], CombineConfig("counts"))
    assert not (tmp_path / "out").exists()


def test_a_negative_score_is_no_probability(tables: list[Path], tmp_path: Path) -> None:
    write_lines(tmp_path / "bad", [b"a ||| x ||| 1 1 -1 1"])
    with pytest.raises(InputError, match="bad:1: found the score '-1'"):
        combined([tables[0], tmp_path / "bad"], CombineConfig("mixture", ((0.5, 0.5),)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"a ||| x ||| 0.5 0.5", "dev:1: found ' 0.5 0.5', expected word links"),
        (b"q ||| q ||| 0-0", "dev: found no pair of the tables"),
    ],
)
def test_bad_development_texts(
    tables: list[Path], tmp_path: Path, line: bytes, message: str
) -> None:
    write_lines(tmp_path / "dev", [line])
    with pytest.raises(InputError, match=message):
        combined(tables, CombineConfig("mixture"), tmp_path / "dev")


def test_settings_that_do_not_fit(tables: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"sum is 1\.1, expected a sum of 1"):
        CombineConfig("mixture", ((0.6, 0.5),))
    with pytest.raises(ConfigError, match="expected weights above 0"):
        CombineConfig("counts", ((1, 0),))
    with pytest.raises(ConfigError, match="fill-up has no weights"):
        CombineConfig("fill-up", ((1, 1),))
    with pytest.raises(ConfigError, match="found 2 lists of weights, expected 1 or 4"):
        CombineConfig("mixture", ((0.5, 0.5), (0.5, 0.5)))
    with pytest.raises(ConfigError, match="needs --corpus-weights, or --dev"):
        combined(tables, CombineConfig("mixture"))
    with pytest.raises(ConfigError, match="must not be given"):
        combined(tables, CombineConfig("fill-up"), tables[0])
    with pytest.raises(ConfigError, match="expected one for each table"):
        combined(tables, CombineConfig("counts", ((1, 1, 1),)))
    with pytest.raises(ConfigError, match="two or more"):
        combined(tables[:1], CombineConfig("fill-up"))
    with pytest.raises(ConfigError, match="read more than once"):
        combined([tables[0], Path("-")], CombineConfig("fill-up"))
    for name in ("five1", "five2"):
        write_lines(tmp_path / name, [b"a ||| x ||| 1 1 1 1 1"])
    with pytest.raises(InputError, match="found 5 scores, expected the four of Moses's training"):
        combined([tmp_path / "five1", tmp_path / "five2"], CombineConfig("counts"))
