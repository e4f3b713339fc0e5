from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base import textio
from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_lines
from rescorer.contract.choices import Weighting
from rescorer.training.pairs import record_spill
from rescorer.training.pairs.pair_cache import stored_pairs
from rescorer.training.pairs.pair_files import PairFiles
from rescorer.training.pairs.pair_pools import ChosenPairs
from rescorer.training.pairs.phrase_pairs import PairChoice, weights_of

TABLE = b"""\
a ||| x ||| 0.1 0.2 0.5 0.4 ||| 0-0 ||| 2 4 1 ||| |||
a ||| x y ||| 0.1 0.2 0.01 0.4 ||| 0-0 ||| 9 4 9 ||| |||
a b ||| x ||| 0.1 0.2 0.9 0.4 ||| 0-0 ||| 2 4 4 ||| |||
a b c ||| z ||| 0.1 0.2 1 0.4 ||| 0-0 ||| 2 4 16 ||| |||
"""
Weighted = tuple[str, str, float]


def write(folder: Path, text: bytes = TABLE) -> Path:
    path = folder / "table"
    path.write_bytes(text)
    return path


def read(
    table: Path, max_words: int = 7, weighting: Weighting = "distinct", min_prob: float = 0.0
) -> list[Weighted]:
    """Sources, targets and weights, in the order of the table."""
    return pairs_of(
        stored_pairs(table, PairChoice(max_words, min_prob, weighting != "distinct"), None),
        weighting,
    )


def pairs_of(files: PairFiles, weighting: Weighting) -> list[Weighted]:
    columns, names = ChosenPairs(files, 1 << 22, 0, 1).columns(0), [*files.words]

    def phrases(words: np.ndarray, lens: np.ndarray) -> list[str]:
        flat = (names[word] for word in words)
        return [b" ".join(next(flat) for _ in range(n)).decode() for n in lens]

    sources = phrases(columns.source_words, columns.source_lens)
    groups = np.repeat(np.arange(len(sources)), columns.n_targets)
    return list(
        zip(
            [sources[group] for group in groups],
            phrases(columns.target_words, columns.target_lens),
            weights_of(columns.counts, weighting).tolist(),
            strict=True,
        )
    )


@pytest.mark.parametrize(
    ("max_words", "min_prob", "expected"),
    [
        (3, 0.0, [("a", "x"), ("a", "x y"), ("a b", "x"), ("a b c", "z")]),
        (2, 0.0, [("a", "x"), ("a", "x y"), ("a b", "x")]),
        (1, 0.0, [("a", "x")]),
        (7, 0.5, [("a", "x"), ("a b", "x"), ("a b c", "z")]),
        (2, 0.6, [("a b", "x")]),
        (100_000, 0.6, [("a b", "x"), ("a b c", "z")]),
    ],
)
def test_which_pairs_are_learned(
    tmp_path: Path, max_words: int, min_prob: float, expected: list[tuple[str, str]]
) -> None:
    found = read(write(tmp_path), max_words, min_prob=min_prob)
    assert [pair[:2] for pair in found] == expected


def test_words_of_a_pair_are_counted_not_blanks(tmp_path: Path) -> None:
    table = write(tmp_path, b"a  b ||| c\t d ||| 1\na b c ||| d ||| 1\na ||| b\tc d ||| 1\n")
    assert read(table, 2) == [("a b", "c d", 1.0)]


def test_blanks_do_not_tell_phrases_apart(tmp_path: Path) -> None:
    assert read(write(tmp_path, b"a b ||| c ||| 1\n a\tb ||| c  ||| 1\n")) == [("a b", "c", 1.0)]


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [("distinct", [1, 1, 1, 1]), ("count", [1, 9, 4, 16]), ("sqrt-count", [1, 3, 2, 4])],
)
def test_weights(tmp_path: Path, weighting: Weighting, expected: list[float]) -> None:
    assert [pair[2] for pair in read(write(tmp_path), 7, weighting)] == expected


def test_roots_of_counts_are_rounded_once() -> None:
    counts = np.arange(1.0, 10_001)
    assert weights_of(counts, "sqrt-count").tolist() == [*map(math.sqrt, counts.tolist())]


def test_a_pair_that_stands_twice_is_one(tmp_path: Path) -> None:
    lines = TABLE.splitlines(keepends=True)
    found = read(write(tmp_path, TABLE + lines[0]))
    assert [pair[:2] for pair in found] == [("a", "x"), ("a", "x y"), ("a b", "x"), ("a b c", "z")]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (b"a ||| x ||| 1 1\t0.5 1", ("a", "x", 1.0)),
        (b"a ||| x ||| 1 1 0.50000000000000000001 1", ("a", "x", 1.0)),
        (b"a ] ||| x ||| 1 1 1 1", ("a ]", "x", 1.0)),
        (b"a ||| ||| 1 1 1 1", ("a", "", 1.0)),
        (b"a|||x|||1 1 1 1", ("a", "x", 1.0)),
        (b"a\r ||| x ||| 1 1 1 1\r", ("a\r", "x", 1.0)),
        (b"| a || b ||| |x|||1 1 1 1", ("| a || b", "|x", 1.0)),
        (b"</s> <unk> ||| \xff ||| 1e-400 1 1 1", None),
    ],
)
def test_odd_rows_are_read_as_moses_reads_them(
    tmp_path: Path, row: bytes, expected: Weighted | None
) -> None:
    others = b"b ||| y ||| 1 1 1 1\n"
    table = write(tmp_path, others + row + b"\n" + others.replace(b"y", b"z"))
    if expected is not None:
        assert read(table, min_prob=0.4) == [("b", "y", 1.0), ("b", "z", 1.0), expected]
    else:
        words = {*stored_pairs(table, PairChoice(), None).words}
        assert words == {b"b", b"y", b"z", b"</s>", b"<unk>", b"\xff"}


@pytest.mark.parametrize("size", [1, 7, 64])
def test_pieces_may_end_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    table = write(tmp_path, TABLE.rstrip(b"\n"))
    whole = read(table, 7, "count")
    monkeypatch.setattr(textio, "PIECE_BYTES", size)
    assert read(table, 7, "count") == whole and len(whole) == 4


@pytest.mark.parametrize(
    ("text", "weighting", "min_prob", "fault"),
    [
        (b"a ||| x ||| 0.1 0.2 0.5 0.4\n", "count", 0.0, "table:1: found ''"),
        (b"a ||| x ||| 1 1 1 1 ||| 0-0 ||| 2 4 nan\n", "count", 0.0, "table:1: found '2 4 nan'"),
        (b"a ||| x ||| 1 1 1 1 ||| 0-0 ||| 2 4 -1\n", "count", 0.0, "table:1: found '2 4 -1'"),
        (
            b"a ||| x ||| 1 1 ||| 0-0 ||| 2 4 1\n",
            "distinct",
            0.1,
            "p.target . source. as the third",
        ),
        (b"a ||| x ||| 1 1 0.05 1 ||| 0-0 ||| 2 4 1\n", "distinct", 0.1, "no phrase pair"),
        (b"a b c d e f g h ||| x ||| 1 1 1 1 ||| 0-0 ||| 2 4 1\n", "distinct", 0, "no phrase pair"),
        (b"", "distinct", 0, "no phrase pair"),
        (b"a ||| x ||| 1\n\n", "distinct", 0, "table:2: found 1 column"),
        (b"a ||| x ||| 1\n ||| x ||| 1\n", "distinct", 0, "table:2: found an empty source"),
        (b"a ||| x ||| 1\nb ||| x ||| 1 1\n", "distinct", 0, "table:2: found 2 scores"),
        (b"a ||| x ||| 1\nb ||| x ||| inf\n", "distinct", 0, "table:2: found the score 'inf'"),
        (b"a ||| x ||| 1\nb [X] ||| x [X] ||| 1\n", "distinct", 0, "table:2: .* hierarchical"),
        (b"a ||| x ||| 1 1 1\na ||| y ||| 1 1 -0.5\n", "distinct", 0.1, "table:2: found"),
    ],
)
def test_unusable_tables_are_refused(
    tmp_path: Path, text: bytes, weighting: Weighting, min_prob: float, fault: str
) -> None:
    with pytest.raises(InputError, match=fault):
        read(write(tmp_path, text), 7, weighting, min_prob)


def test_all_rows_of_a_real_table(golden: Path) -> None:
    path = golden / "decode" / "phrase-table.gz"
    rows = [line.split(b" ||| ") for line in read_lines(path)]
    expected = [(row[0].decode(), row[1].decode(), int(row[4].split()[2])) for row in rows]
    assert read(path, 7, "count") == expected


def test_damaged_compressed_data_are_named(tmp_path: Path, golden: Path) -> None:
    data = (golden / "decode" / "phrase-table.gz").read_bytes()
    (tmp_path / "cut.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=r"cut\.gz:[0-9]+: found damaged data"):
        read(tmp_path / "cut.gz")


@pytest.mark.parametrize("weighting", ["count", "sqrt-count"])
def test_pairs_that_were_never_seen_are_not_learned(tmp_path: Path, weighting: Weighting) -> None:
    table = write(tmp_path, TABLE.replace(b"9 4 9", b"9 4 0").replace(b"2 4 4", b"2 4 0.0"))
    found = read(table, 7, weighting)
    assert [pair[:2] for pair in found] == [("a", "x"), ("a b c", "z")]
    assert [pair[2] for pair in found] == ([1, 16] if weighting == "count" else [1, 4])
    assert len(read(table)) == 4


def test_a_table_of_pairs_that_were_never_seen_is_refused(tmp_path: Path) -> None:
    table = write(tmp_path, b"a ||| x ||| 1 1 1 1 ||| 0-0 ||| 2 4 0\n")
    with pytest.raises(InputError, match="no phrase pair"):
        read(table, 7, "count")


def test_words_are_those_of_the_distinct_sources_and_of_all_targets(tmp_path: Path) -> None:
    rows = b"a b ||| x ||| 1\na b ||| y ||| 1\na b ||| y z ||| 1\nb c ||| z ||| 1\n"
    source, target = stored_pairs(write(tmp_path, rows), PairChoice(), None).word_counts()
    assert source.most_frequent(9) == [b"b", b"a", b"c"] and source.n_running == 4
    assert target.most_frequent(9) == [b"y", b"z", b"x"] and target.n_running == 5


def test_all_of_the_data_is_in_the_digest(tmp_path: Path) -> None:
    def digest(rows: bytes, choice: PairChoice) -> str:
        return stored_pairs(write(tmp_path, rows), choice, None).digest

    counted = PairChoice(with_counts=True)
    kinds = [
        digest(TABLE, counted),
        digest(TABLE.replace(b"x y", b"y x"), counted),
        digest(TABLE.replace(b"a b |", b"a |"), counted),
        digest(TABLE.replace(b"2 4 4", b"2 4 5"), counted),
        digest(b"".join(reversed(TABLE.splitlines(keepends=True))), counted),
    ]
    assert len(set(kinds)) == 5 and kinds[0] == digest(TABLE, counted)


@pytest.mark.parametrize("run_numbers", [2**24, 8])
def test_reversed_sides_are_grouped_by_what_were_the_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_numbers: int
) -> None:
    """The scores and counts of a row stay its own; odd rows are swapped too."""
    monkeypatch.setattr(record_spill, "RUN_NUMBERS", run_numbers)
    odd = b"a b||| |||1 1\t0.5 1 ||| ||| 1 1 25\n"
    table = write(tmp_path, TABLE + odd)
    choice = PairChoice(2, 0.1, with_counts=True, reverse_sides=True)
    found = pairs_of(stored_pairs(table, choice, None), "sqrt-count")
    assert found == [("x", "a", 1.0), ("x", "a b", 2.0), ("", "a b", 5.0)]


def test_reversed_pairs_are_those_of_a_swapped_table(tmp_path: Path) -> None:
    columns = [line.split(b" ||| ") for line in TABLE.splitlines(keepends=True)]
    swapped = b"".join(b" ||| ".join([c[1], c[0], *c[2:]]) for c in columns)
    reverse = PairChoice(with_counts=True, reverse_sides=True)
    one = stored_pairs(write(tmp_path), reverse, None)
    other = stored_pairs(write(tmp_path, swapped), PairChoice(with_counts=True), None)
    assert pairs_of(one, "count") == pairs_of(other, "count")
    forward = stored_pairs(write(tmp_path), PairChoice(with_counts=True), None)
    assert one.digest == other.digest != forward.digest
