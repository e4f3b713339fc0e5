from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rescorer.contract.scorer import Batch, NamedScorer, UnfitPair, WordScorer
from rescorer.contract.vocabulary import Vocabulary
from rescorer.models.reversed_sides import ReversedSides

READS = Vocabulary([b"x"])


class Lengths:
    """10 x words of what it takes for the source + words of what it takes for the target."""

    shortlist = Vocabulary([b"a"])
    needs_links = True

    def __init__(self) -> None:
        self.links: list[bytes] = []

    def values(self, asked: Batch) -> NDArray[np.float64]:
        if any(len(target.split()) > 2 for target in asked.targets):
            raise UnfitPair(1, asked, "target", "3 words", "at most 2", "Take fewer")
        self.links = list(asked.links or [])
        pairs = zip(asked.sources, asked.targets, strict=True)
        return np.array(
            [10.0 * len(source.split()) + len(target.split()) for source, target in pairs]
        )


def test_the_scorer_sees_the_sides_swapped() -> None:
    inner = Lengths()
    scorer = ReversedSides(inner, READS)
    asked = Batch([b"a", b"a b"], [b"x y z", b""], [b"0-2 0-10", b""])
    assert scorer.values(asked).tolist() == [31, 2]
    assert inner.links == [b"2-0 10-0", b""] and scorer.needs_links


def test_unknown_words_are_those_of_the_target() -> None:
    scorer = NamedScorer("reversed", ReversedSides(Lengths(), READS), "1").scorer
    assert scorer.shortlist is READS


def test_what_predicts_the_source_predicts_no_target_word() -> None:
    assert not isinstance(ReversedSides(Lengths(), READS), WordScorer)


def test_a_pair_without_a_value_is_told_with_its_own_sides() -> None:
    scorer = ReversedSides(Lengths(), READS)
    message = r"'a b c \|\|\| y': found 3 words on the source side, expected at most 2. Take fewer"
    with pytest.raises(UnfitPair, match=message) as caught:
        scorer.values(Batch([b"a", b"a b c"], [b"x", b"y"], [b"", b""]))
    assert caught.value.row == 1


def test_pairs_without_links_stay_without() -> None:
    assert Batch([b"a"], [b"x"]).sides_swapped() == Batch([b"x"], [b"a"])
