"""Near copies, against the edit distance by its textbook table and by hand."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from moses_bridge.base import near_copies
from moses_bridge.base.near_copies import near_shares, nearest_similarities


def distance(left: list[str], right: list[str]) -> int:
    """Wagner & Fischer (1974): the last cell of the whole table."""
    table = np.zeros((len(left) + 1, len(right) + 1), int)
    table[:, 0], table[0] = range(len(left) + 1), range(len(right) + 1)
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            change = table[i, j] + (one != other)
            table[i + 1, j + 1] = min(change, table[i, j + 1] + 1, table[i + 1, j] + 1)
    return int(table[-1, -1])


def similarity(left: list[str], right: list[str]) -> Fraction:
    return 1 - Fraction(distance(left, right), max(len(left), len(right)))


def lines(sentences: list[list[str]]) -> list[str]:
    return [" ".join(words) for words in sentences]


def drawn(rng: random.Random, n_sentences: int, n_words: int) -> list[list[str]]:
    """Sentences of few words, so that many are alike."""
    return [
        [f"w{rng.randrange(n_words)}" for _ in range(rng.randint(1, 12))]
        for _ in range(n_sentences)
    ]


@pytest.mark.parametrize("least", [0.05, 0.5, 0.6, 0.7, 0.8, 1.0])
def test_the_nearest_is_the_one_of_all_pairs(least: float) -> None:
    rng = random.Random(1)
    sentences, others = drawn(rng, 40, 4), drawn(rng, 60, 5)
    best = [max(similarity(one, other) for other in others) for one in sentences]
    expected = [float(each) if each >= Fraction(str(least)) else 0.0 for each in best]
    assert nearest_similarities(lines(sentences), lines(others), least) == pytest.approx(
        expected, abs=1e-9
    )
    assert any(expected)


def test_ranks_leave_out_the_own_and_the_earlier_ones() -> None:
    rng = random.Random(2)
    sentences = drawn(rng, 50, 3)
    ranks = [rng.randrange(6) for _ in sentences]
    expected = [
        max(
            (
                similarity(one, other)
                for other, his in zip(sentences, ranks, strict=True)
                if his > own
            ),
            default=Fraction(0),
        )
        for one, own in zip(sentences, ranks, strict=True)
    ]
    found = nearest_similarities(lines(sentences), lines(sentences), 0.05, (ranks, ranks))
    assert found == pytest.approx([float(each) for each in expected], abs=1e-9)
    assert found[ranks.index(5)] == 0


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ("a b c d e f g h i j", "a b c d e f g", 0.7),
        ("a b c d e f g h i j", "x b c y e f z h i j", 0.7),
        ("a b c d", "b c d a", 0.5),
        ("ace ssl protocol library - development files", "ace protocol library - files", 5 / 7),
        ("a", "b", 0.0),
        ("", "a", 0.0),
        ("", "", 1.0),
    ],
)
def test_by_hand(own: str, other: str, expected: float) -> None:
    (found,) = nearest_similarities([own.encode()], [other.encode()], 0.5)
    assert found == pytest.approx(expected, abs=1e-9)
    if expected == 0.7:
        assert found >= 0.7


def test_blocks_and_many_words_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters of the first 70,000 words go through the surrogates, which are no characters of their own."""
    rng = random.Random(3)
    many = [[f"word{n}" for n in range(start, start + 20)] for start in range(0, 70_000, 20)]
    changed = [[*words[:-1], "other"] for words in many[2700:2900]]
    assert nearest_similarities(lines(many), lines(changed), 0.9).tolist() == [
        0.95 if 2700 <= n < 2900 else 0.0 for n in range(len(many))
    ]
    sentences, others = drawn(rng, 30, 4), drawn(rng, 30, 4)
    whole = nearest_similarities(lines(sentences), lines(others), 0.3)
    monkeypatch.setattr(near_copies, "SENTENCES_AT_ONCE", 4)
    monkeypatch.setattr(near_copies, "VALUES_AT_ONCE", 60)
    assert (
        nearest_similarities(lines(sentences), lines(others), 0.3, jobs=2).tolist()
        == whole.tolist()
    )


def test_no_others_and_no_sentences() -> None:
    assert nearest_similarities(["a", ""], []).tolist() == [0.0, 0.0]
    assert nearest_similarities([], ["a"]).tolist() == []


def test_shares_count_the_levels_themselves() -> None:
    found = nearest_similarities(
        [" ".join(letters) for letters in ("abcdefghij", "abcdefghik", "mnopqrstuv", "mnopqxyz12")],
        ["a b c d e f g", "m n o p q 1 2 3 4 5"],
    )
    assert found.tolist() == [0.7, 0.7, 0.5, 0.5]
    assert near_shares(found) == {"0.5": 1.0, "0.7": 0.5, "0.8": 0.0}
