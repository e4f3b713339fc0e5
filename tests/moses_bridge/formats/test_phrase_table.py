from __future__ import annotations

import gzip
import itertools
import math
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_lines
from moses_bridge.formats.phrase_table import (
    append_score_columns,
    append_scores,
    direct_prob,
    format_score,
    has_counts,
    inverse_prob,
    joint_count,
    pair_counts,
    read_blocks,
    read_rows,
    source_count,
    target_count,
)

GOLDEN_TABLES = ["decode/phrase-table.gz", "extract/phrase-table.gt.gz"]
NBSP_NEL_LS = b"\xc2\xa0 \xc2\x85 \xe2\x80\xa8"
LATIN_1 = b"d\xe9j\xe0 \xa0"


def table(tmp_path: Path, text: bytes) -> Path:
    path = tmp_path / "table"
    path.write_bytes(text)
    return path


@pytest.mark.parametrize(
    ("row", "source", "target", "scores", "alignment"),
    [
        (b"a ||| b ||| 1", b"a", b"b", (1,), b""),
        (b"a b ||| c ||| .5 1e-3 ||| 0-0 ||| 1 2 1 ||| |||", b"a b", b"c", (0.5, 0.001), b"0-0"),
        (b"a|||b|||0.5\t2.718|||0-0", b"a", b"b", (0.5, 2.718), b"0-0"),
        (b"a |||  ||| 1 ||| ||| 3 3 3", b"a", b"", (1,), b""),
        (b"a |||| b ||| 1", b"a", b"| b", (1,), b""),
        (b"\ta  b ||| c\t||| 0 ||| 0-0 1-0 \r", b"a  b", b"c", (0,), b"0-0 1-0"),
        (b"a ||| b ||| 0.25\r", b"a", b"b", (0.25,), b""),
        (b"%s ||| %s ||| 1" % (NBSP_NEL_LS, LATIN_1), NBSP_NEL_LS, LATIN_1, (1,), b""),
        (
            b"a|NN ||| b|N|x ||| 1 ||| 0-0 ||| ||| dom 1 ||| {{Tree a}}",
            b"a|NN",
            b"b|N|x",
            (1,),
            b"0-0",
        ),
    ],
)
def test_rows_that_moses_reads(
    tmp_path: Path, row: bytes, source: bytes, target: bytes, scores: tuple[float], alignment: bytes
) -> None:
    path = table(tmp_path, row + b"\n")
    (found,) = read_rows(path)
    assert (found.source, found.target, found.alignment) == (source, target, alignment)
    assert found.scores == pytest.approx(scores)
    assert found.line == row
    (block,) = read_blocks(path, 1)
    assert (block.lines, block.sources, block.targets) == ([row], [source], [target])


GOOD = b"a ||| b ||| 1 0.5 ||| 0-0\n"
FAULTS = [
    (b"", "1 column"),
    (b"a ||| b", "2 columns"),
    (b" ||| b ||| 1 1", "empty source"),
    (b"\t ||| b ||| 1 1", "empty source"),
    (b"a [X] ||| b [X] ||| 1 1", "hierarchical"),
    (b"a ||| b ||| 1", "1 score, expected 2"),
    (b"a ||| b ||| 1 1 1", "3 scores, expected 2"),
    (b"a ||| b |||  ||| 0-0", "0 scores"),
]
SCORE_FAULTS = ["nan", "-nan", "inf", "-0.5", "0.5x", "--", "1_0", "0,5", "0x1", "(0.5)"]


@pytest.mark.parametrize(("row", "found"), FAULTS)
@pytest.mark.parametrize("place", [1, 3])
def test_faulty_rows_are_named(tmp_path: Path, row: bytes, found: str, place: int) -> None:
    rows = [GOOD, GOOD, GOOD]
    rows.insert(place, row + b"\n")
    path = table(tmp_path, b"".join(rows))
    for reader in (read_rows(path), read_blocks(path, 1), read_blocks(path, 10)):
        with pytest.raises(InputError, match=found) as error:
            list(reader)
        assert error.value.line == place + 1
        assert str(error.value).startswith(f"{path}:{place + 1}: found ")


@pytest.mark.parametrize("score", SCORE_FAULTS)
def test_faulty_scores_are_named(tmp_path: Path, score: str) -> None:
    path = table(tmp_path, GOOD + f"a ||| c ||| 0.5 {score} ||| 0-0\n".encode())
    with pytest.raises(InputError, match=re.escape(f"the score {score!r}")) as error:
        list(read_rows(path))
    assert error.value.line == 2


def test_the_number_of_scores_may_be_given(tmp_path: Path) -> None:
    path = table(tmp_path, GOOD)
    assert len(list(read_rows(path, n_scores=2))) == 1
    for reader in (read_rows(path, n_scores=4), read_blocks(path, 1, n_scores=4)):
        with pytest.raises(InputError, match="2 scores, expected 4"):
            list(reader)


def test_blocks_hold_whole_groups_of_a_source(tmp_path: Path) -> None:
    sources = [b"a", b"a", b" a", b"b", b"c", b"c", b"a", b"d"]
    path = table(tmp_path, b"".join(b"%s ||| x ||| 1\n" % source for source in sources))
    blocks = list(read_blocks(path, 2))
    assert [block.sources for block in blocks] == [[b"a"] * 3, [b"b", b"c", b"c"], [b"a", b"d"]]
    assert [block.first_line for block in blocks] == [1, 4, 7]
    assert [len(block) for block in blocks] == [3, 3, 2]


@pytest.mark.parametrize("text", [b"", b"a ||| x ||| 1", b"a ||| x ||| 1\nb ||| x ||| 1"])
def test_a_last_line_without_newline_counts(tmp_path: Path, text: bytes) -> None:
    n_rows = text.count(b"x")
    assert sum(map(len, read_blocks(table(tmp_path, text), 1))) == n_rows
    assert len(list(read_rows(tmp_path / "table"))) == n_rows


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_a_compressed_table_that_was_cut_is_refused(tmp_path: Path, suffix: str) -> None:
    from moses_bridge.base.textio import write_lines

    rng = random.Random(1)
    rows = [b"%d ||| %d ||| 0.5" % (number, rng.randrange(10**9)) for number in range(3000)]
    whole, cut = tmp_path / f"whole{suffix}", tmp_path / f"cut{suffix}"
    write_lines(whole, rows)
    assert [line for block in read_blocks(whole, 100) for line in block.lines] == rows
    cut.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(InputError, match="damaged data"):
        list(read_blocks(cut, 100))


@pytest.mark.parametrize("name", GOLDEN_TABLES)
def test_tables_of_moses_pass_through(golden: Path, name: str) -> None:
    path = golden / name
    text = gzip.decompress(path.read_bytes())
    blocks = list(read_blocks(path, 1000))
    assert b"".join(line + b"\n" for block in blocks for line in block.lines) == text
    assert all(len(block) >= 1000 for block in blocks[:-1])
    for earlier, later in itertools.pairwise(blocks):
        assert earlier.sources[-1] != later.sources[0]
        assert later.first_line == earlier.first_line + len(earlier)


def test_rows_of_moses_are_read_as_a_pattern_reads_them(golden: Path) -> None:
    path = golden / GOLDEN_TABLES[1]
    pattern = re.compile(rb"(.+) \|\|\| (.+) \|\|\| (.+) \|\|\| (.*) \|\|\| .* \|\|\| \|\|\|")
    for line, row in itertools.islice(zip(read_lines(path), read_rows(path), strict=True), 20000):
        match = pattern.fullmatch(line)
        assert match is not None
        assert (row.source, row.target, row.alignment) == match.group(1, 2, 4)
        assert row.scores == tuple(np.array(match[3].split()).astype(np.float64))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (b"a ||| b ||| 1 0.5", b"a ||| b ||| 1 0.5 0.25"),
        (b"a ||| b ||| 1  0.5 \t\r", b"a ||| b ||| 1  0.5 0.25 \t\r"),
        (b"a|||b|||1|||0-0", b"a|||b|||1 0.25|||0-0"),
        (
            b"a ||| b ||| 1 ||| ||| ||| x 0 ||| {{T a}} ",
            b"a ||| b ||| 1 0.25 ||| ||| ||| x 0 ||| {{T a}} ",
        ),
        (b"\xe9 ||| \xc2\xa0 ||| 1 ||| 0-0\r", b"\xe9 ||| \xc2\xa0 ||| 1 0.25 ||| 0-0\r"),
        (b"a |||| b ||| 1 ||||", b"a |||| b ||| 1 0.25 ||||"),
    ],
)
def test_added_scores_leave_every_other_byte(row: bytes, expected: bytes) -> None:
    assert append_scores(row, [0.25]) == expected
    assert append_scores(row, [0.25, 1e-30]) == expected.replace(b"0.25", b"0.25 1e-30")
    assert append_scores(row, []) == row


def test_added_scores_can_be_cut_out_again_from_tables_of_moses(golden: Path) -> None:
    for line in itertools.islice(read_lines(golden / GOLDEN_TABLES[0]), 0, None, 97):
        changed = append_scores(line, [0.125, 3])
        assert changed.replace(b" 0.125 3", b"", 1) == line
        assert changed.split(b"|||")[2].split()[4:] == [b"0.125", b"3"]


@given(
    st.lists(st.binary(min_size=1).filter(lambda word: b"|" not in word), min_size=4, max_size=7),
    st.integers(0, 3),
)
def test_any_bytes_survive(columns: list[bytes], n_blanks: int) -> None:
    columns[2] = b" " * n_blanks + b"0.5 1" + b"\t" * n_blanks
    line = b"|||".join(columns)
    found = append_scores(line, [0.75]).split(b"|||")
    assert found[2] == b" " * n_blanks + b"0.5 1 0.75" + b"\t" * n_blanks
    assert found[:2] + found[3:] == columns[:2] + columns[3:]


@pytest.mark.parametrize(
    ("score", "text"),
    [(1.0, b"1"), (0.1, b"0.1"), (1 / 3, b"0.3333333"), (1e-30, b"1e-30"), (math.e, b"2.718282")],
)
def test_scores_as_text(score: float, text: bytes) -> None:
    assert format_score(score) == text


@pytest.mark.parametrize("score", [0.0, -0.5, math.nan, math.inf, -math.inf])
def test_scores_that_moses_would_misread_are_not_written(score: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        append_scores(b"a ||| b ||| 1", [score])


@pytest.mark.parametrize("n_columns", [0, 1, 3])
def test_many_rows_at_once_are_as_one_by_one(n_columns: int) -> None:
    rows = [b"a ||| b ||| 1", b"a|||b|||1 \t ||| 0-0", b"a |||| b ||| 1 ||||", b"a ||| b ||| 1 \r"]
    rows += [b"a |||  ||| \t0.5 1\t||| x ||| 1 1 1 ||| |||", b"d\xe9 ||| \xc2\xa0 ||| 1|||"]
    scores = np.exp(np.random.default_rng(1).uniform(-69, 1, (len(rows), n_columns)))
    expected = [append_scores(row, values) for row, values in zip(rows, scores, strict=True)]
    assert append_score_columns(rows, scores) == b"".join(row + b"\n" for row in expected)
    assert append_score_columns([], np.ones((0, n_columns))) == b""


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_of_many_rows_none_may_have_such_scores(score: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        append_score_columns([b"a ||| b ||| 1"] * 2, np.array([[0.5], [score]]))


def test_seven_digits_lose_at_most_half_a_unit_of_the_seventh() -> None:
    rng = np.random.default_rng(7)
    scores = np.exp(rng.uniform(math.log(1e-30), 0, 1000))
    printed = np.array([float(format_score(score)) for score in scores.tolist()])
    assert np.abs(printed / scores - 1).max() <= 5e-7


ROW = b"a b ||| x ||| 0.1 0.2 0.3 0.4 ||| 0-0 ||| 7 5 3 |||"


def test_numbers_by_what_they_mean() -> None:
    """As Moses's `score` and `consolidate` write them: p(f|e) lex p(e|f) lex; counts of e, f and the pair."""
    assert inverse_prob(ROW, "t", 1) == 0.1
    assert direct_prob(ROW, "t", 1) == 0.3
    counts = (target_count(ROW, "t", 1), source_count(ROW, "t", 1), joint_count(ROW, "t", 1))
    assert counts == (7, 5, 3)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (ROW, True),
        (b"a ||| b ||| 1 ||| ||| ||| x 1", False),
        (b"a ||| b ||| 1 |||", False),
        (b"a ||| b ||| 1", False),
    ],
)
def test_whether_a_row_has_counts(row: bytes, expected: bool) -> None:
    assert has_counts(row) == expected


@pytest.mark.parametrize("read", [source_count, target_count])
def test_a_row_without_counts(read: Callable[[bytes, str, int], float]) -> None:
    with pytest.raises(InputError, match=r"t:3: .*in column 5"):
        read(b"a ||| b ||| 1 1 1 1 ||| 0-0 ||| x y", "t", 3)


def test_counts_of_a_pair() -> None:
    assert pair_counts(b"a ||| b ||| 1 ||| 0-0 ||| 3 20 2 |||", "t", 1) == (3.0, 20.0, 2.0)
    with pytest.raises(InputError, match=r"t:7: found '3 20', expected count\(target\)"):
        pair_counts(b"a ||| b ||| 1 ||| 0-0 ||| 3 20", "t", 7)
