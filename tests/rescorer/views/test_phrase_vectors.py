from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from rescorer.contract.vocabulary import Vocabulary
from rescorer.views import phrase_vectors
from rescorer.views.phrase_vectors import (
    distinct_phrases,
    encoded_blocks,
    keep_vectors,
    kept_vectors,
    known_phrases,
    nearest,
    unit_rows,
    unknown_words,
)

PHRASES = [b"a", b"a b", "été ".encode() + b"\xe9", b"c d e"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phrase_vectors, "PHRASES_AT_ONCE", 3)
    monkeypatch.setattr(phrase_vectors, "ROWS_AT_ONCE", 2)


def lengths(phrases: Sequence[bytes]) -> NDArray[np.float32]:
    """Stands in for a network: bytes and blanks of each phrase."""
    return np.array([(len(phrase), phrase.count(b" ")) for phrase in phrases], np.float32)


def test_blocks_are_of_length_one_and_in_order() -> None:
    blocks = list(encoded_blocks(PHRASES, lengths))
    assert [len(block) for block in blocks] == [3, 1]
    for vector, phrase in zip(np.concatenate(blocks), PHRASES, strict=True):
        size = np.hypot(len(phrase), phrase.count(b" "))
        np.testing.assert_allclose(vector * size, (len(phrase), phrase.count(b" ")), rtol=1e-6)


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    identity = {"model": "m", "table": {"path": "t"}}
    keep_vectors(tmp_path / "k", identity, PHRASES, lengths)
    kept = kept_vectors(tmp_path / "k", identity)
    assert kept is not None and kept.phrases == PHRASES
    expected = np.concatenate(list(encoded_blocks(PHRASES, lengths)))
    np.testing.assert_array_equal(np.concatenate(list(kept.blocks())), expected)
    np.testing.assert_array_equal(np.load(tmp_path / "k" / "vectors.npy"), expected)


@pytest.mark.parametrize("identity", [{"model": "n"}, {"model": "m", "side": "target"}, {}])
def test_what_belongs_to_something_else_is_not_taken(
    tmp_path: Path, identity: dict[str, str]
) -> None:
    keep_vectors(tmp_path, {"model": "m"}, PHRASES, lengths)
    assert kept_vectors(tmp_path, identity) is None


def test_an_interrupted_folder_is_none(tmp_path: Path) -> None:
    """The description is removed first and written last."""
    keep_vectors(tmp_path, {"model": "m"}, PHRASES, lengths)

    def interrupted(phrases: Sequence[bytes]) -> NDArray[np.float32]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        keep_vectors(tmp_path, {"model": "m"}, PHRASES, interrupted)
    assert kept_vectors(tmp_path, {"model": "m"}) is None
    assert kept_vectors(tmp_path / "nowhere", {"model": "m"}) is None


def cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """By loops in float64."""
    product = sum(float(a) * float(b) for a, b in zip(one, other, strict=True))
    squares = [sum(float(a) ** 2 for a in vector) for vector in (one, other)]
    return product / math.sqrt(squares[0] * squares[1])


@pytest.mark.parametrize("block_rows", [1, 7, 50])
@pytest.mark.parametrize("n_best", [1, 5, 80])
def test_nearest_is_what_loops_find(block_rows: int, n_best: int) -> None:
    rng = np.random.default_rng(3)
    queries = rng.normal(size=(4, 6)).astype(np.float32)
    candidates = rng.normal(size=(50, 6)).astype(np.float32)
    units = unit_rows(candidates)
    blocks = [units[first : first + block_rows] for first in range(0, 50, block_rows)]
    for query, found in zip(queries, nearest(queries, blocks, n_best), strict=True):
        cosines = [cosine(query, candidate) for candidate in candidates]
        order = sorted(range(50), key=lambda row: -cosines[row])[:n_best]
        assert found.rows.tolist() == order
        np.testing.assert_allclose(found.cosines, [cosines[row] for row in order], atol=1e-6)


@pytest.mark.parametrize("block_rows", [1, 2, 6])
def test_equal_candidates_come_in_their_order(block_rows: int) -> None:
    candidates = np.array([[0, 1], [1, 0], [2, 0], [0, 3], [4, 0], [-1, 0]], np.float32)
    units = unit_rows(candidates)
    blocks = [units[first : first + block_rows] for first in range(0, 6, block_rows)]
    (found,) = nearest(np.array([[5, 0]], np.float32), blocks, 2)
    assert found.rows.tolist() == [1, 2]


def test_no_candidates() -> None:
    (found,) = nearest(np.ones((1, 3), np.float32), [], 2)
    assert len(found.rows) == len(found.cosines) == 0


def test_a_row_of_zeros_stays() -> None:
    np.testing.assert_array_equal(
        unit_rows(np.array([[0, 0], [3, 4]], np.float32)), np.float32([[0, 0], [0.6, 0.8]])
    )


ROWS = b"b  c ||| y ||| 1\nb c ||| ||| 1\na ||| z\ty ||| 1\na ||| x ||| 1\n"


def test_each_phrase_once(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(ROWS)
    assert distinct_phrases(tmp_path / "t", "source") == [b"a", b"b c"]
    assert distinct_phrases(tmp_path / "t", "target") == [b"x", b"y", b"z y"]


def test_no_phrase(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"a ||| ||| 1\n")
    with pytest.raises(InputError, match="no target phrase"):
        distinct_phrases(tmp_path / "t", "target")


def test_phrases_with_unknown_words_are_left_out() -> None:
    vocabulary = Vocabulary([b"a", b"b"])
    assert known_phrases([b"a", b"a c", b"b a"], vocabulary, "t") == [b"a", b"b a"]
    assert unknown_words(b"c a d", vocabulary) == [b"c", b"d"]


def test_a_table_of_another_language() -> None:
    with pytest.raises(InputError, match="Name the other column with --side"):
        known_phrases([b"x", b"y z"], Vocabulary([b"a"]), "t")
