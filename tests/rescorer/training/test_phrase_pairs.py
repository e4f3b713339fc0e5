from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moses_bridge.errors import InputError
from moses_bridge.textio import read_lines
from rescorer.training.phrase_pairs import PhrasePairs, read_pairs, sampled, sides_swapped

TABLE = b"""\
a ||| x ||| 0.1 0.2 0.5 0.4 ||| 0-0 ||| 2 4 1 ||| |||
a ||| x y ||| 0.1 0.2 0.01 0.4 ||| 0-0 ||| 9 4 9 ||| |||
a b ||| x ||| 0.1 0.2 0.9 0.4 ||| 0-0 ||| 2 4 4 ||| |||
a b c ||| z ||| 0.1 0.2 1 0.4 ||| 0-0 ||| 2 4 16 ||| |||
"""


def write(folder: Path, text: bytes = TABLE) -> Path:
    path = folder / "table"
    path.write_bytes(text)
    return path


@pytest.mark.parametrize(
    ("max_words", "min_prob", "expected"),
    [
        (3, 0.0, [("a", "x"), ("a", "x y"), ("a b", "x"), ("a b c", "z")]),
        (2, 0.0, [("a", "x"), ("a", "x y"), ("a b", "x")]),
        (1, 0.0, [("a", "x")]),
        (7, 0.5, [("a", "x"), ("a b", "x"), ("a b c", "z")]),
        (2, 0.6, [("a b", "x")]),
    ],
)
def test_which_pairs_are_learned(
    tmp_path: Path, max_words: int, min_prob: float, expected: list[tuple[str, str]]
) -> None:
    pairs = read_pairs(write(tmp_path), max_words, "distinct", min_prob)
    found = [
        (pairs.sources[group].decode(), target.decode())
        for group, target in zip(pairs.groups, pairs.targets, strict=True)
    ]
    assert found == expected
    assert len(set(pairs.sources)) == len(pairs.sources)


def test_words_of_a_pair_are_counted_not_blanks(tmp_path: Path) -> None:
    table = write(tmp_path, b"a  b ||| c\t d ||| 1\na b c ||| d ||| 1\na ||| b\tc d ||| 1\n")
    assert read_pairs(table, 2, "distinct").sources == [b"a  b"]


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [("distinct", [1, 1, 1, 1]), ("count", [1, 9, 4, 16]), ("sqrt-count", [1, 3, 2, 4])],
)
def test_weights(tmp_path: Path, weighting: str, expected: list[float]) -> None:
    pairs = read_pairs(write(tmp_path), 7, weighting)  # type: ignore[arg-type]
    assert pairs.weights.tolist() == expected


def test_a_pair_that_stands_twice_is_one(tmp_path: Path) -> None:
    lines = TABLE.splitlines(keepends=True)
    pairs = read_pairs(write(tmp_path, TABLE + lines[0]), 7, "distinct")
    assert pairs.targets == [b"x", b"x y", b"x", b"z"]
    assert pairs.groups.tolist() == [0, 0, 1, 2]


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
    ],
)
def test_unusable_tables_are_refused(
    tmp_path: Path, text: bytes, weighting: str, min_prob: float, fault: str
) -> None:
    with pytest.raises(InputError, match=fault):
        read_pairs(write(tmp_path, text), 7, weighting, min_prob)  # type: ignore[arg-type]


def test_all_rows_of_a_real_table(golden: Path) -> None:
    path = golden / "decode" / "phrase-table.gz"
    pairs = read_pairs(path, 7, "count")
    rows = [line.split(b" ||| ") for line in read_lines(path)]
    assert [pairs.sources[group] for group in pairs.groups] == [row[0] for row in rows]
    assert pairs.targets == [row[1] for row in rows]
    assert pairs.weights.tolist() == [int(row[4].split()[2]) for row in rows]


def test_a_sample_keeps_pairs_together(tmp_path: Path) -> None:
    pairs = read_pairs(write(tmp_path), 7, "count")
    whole = {
        (pairs.sources[group], target, weight)
        for group, target, weight in zip(pairs.groups, pairs.targets, pairs.weights, strict=True)
    }
    for seed in range(8):
        part = sampled(pairs, 2, seed)
        found = {
            (part.sources[group], target, weight)
            for group, target, weight in zip(part.groups, part.targets, part.weights, strict=True)
        }
        assert len(found) == 2
        assert found < whole
        assert (np.diff(part.groups) >= 0).all()


@pytest.mark.parametrize("weighting", ["count", "sqrt-count"])
def test_pairs_that_were_never_seen_are_not_learned(tmp_path: Path, weighting: str) -> None:
    table = TABLE.replace(b"9 4 9", b"9 4 0").replace(b"2 4 4", b"2 4 0.0")
    pairs = read_pairs(write(tmp_path, table), 7, weighting)  # type: ignore[arg-type]
    assert pairs.targets == [b"x", b"z"] and pairs.sources == [b"a", b"a b c"]
    assert pairs.weights.tolist() == ([1, 16] if weighting == "count" else [1, 4])
    assert len(read_pairs(write(tmp_path, table), 7, "distinct")) == 4


def test_a_table_of_pairs_that_were_never_seen_is_refused(tmp_path: Path) -> None:
    table = write(tmp_path, b"a ||| x ||| 1 1 1 1 ||| 0-0 ||| 2 4 0\n")
    with pytest.raises(InputError, match="no phrase pair"):
        read_pairs(table, 7, "count")


def test_words_are_those_of_the_distinct_sources_and_of_all_targets() -> None:
    pairs = PhrasePairs(
        [b"a b", b"b c"], [b"x", b"y", b"y z", b"z"], np.array([0, 0, 0, 1]), np.ones(4)
    )
    source, target = pairs.word_counts()
    assert source == {b"a": 1, b"b": 2, b"c": 1}
    assert target == {b"x": 1, b"y": 2, b"z": 2}


def test_all_of_the_data_is_in_the_content() -> None:
    def content(targets: list[bytes], group: int = 1, weight: float = 1.0) -> bytes:
        pairs = PhrasePairs([b"a", b"b"], targets, np.array([0, group]), np.array([1.0, weight]))
        return b"\n".join(pairs.content())

    kinds = [
        content([b"x", b"y"]),
        content([b"y", b"x"]),
        content([b"x", b"y"], group=0),
        content([b"x", b"y"], weight=2.0),
    ]
    assert len(set(kinds)) == 4 and kinds[0] == content([b"x", b"y"])


def test_swapped_sides_are_grouped_by_what_were_the_targets() -> None:
    pairs = PhrasePairs(
        [b"a", b"b"], [b"x", b"y", b"y", b"x"], np.array([0, 0, 1, 1]), np.arange(1.0, 5.0)
    )
    found = sides_swapped(pairs)
    assert (found.sources, found.targets) == ([b"x", b"y"], [b"a", b"b", b"a", b"b"])
    assert found.groups.tolist() == [0, 0, 1, 1] and found.weights.tolist() == [1, 4, 2, 3]
