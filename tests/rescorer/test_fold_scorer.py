from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from rescorer.contract.scorer import Batch, UnfitPair
from rescorer.contract.vocabulary import Vocabulary
from rescorer.fold_scorer import FoldScorer
from rescorer.pair_folds import folds_of

SHORTLIST = Vocabulary([b"x"])
SOURCES = [b"s%d" % number for number in range(40)]
TARGETS = [b"t%d" % (number % 7) for number in range(40)]


@dataclass
class Numbered:
    """Its number, and a tenth for each source word; it refuses one source."""

    number: int
    needs_links: bool = False
    shortlist: Vocabulary | None = SHORTLIST
    refused: bytes = b""

    def values(self, asked: Batch) -> NDArray[np.float64]:
        if self.refused in asked.sources:
            row = asked.sources.index(self.refused)
            raise UnfitPair(row, asked, "source", "a word", "another", "Mend it")
        return np.array([self.number + 0.1 * len(source.split()) for source in asked.sources])


def test_a_pair_is_scored_by_the_network_of_its_fold() -> None:
    scorer = FoldScorer([Numbered(0), Numbered(1), Numbered(2)], max_phrase_words=3)
    found = scorer.values(Batch(SOURCES, TARGETS))
    np.testing.assert_allclose(found, folds_of(SOURCES, TARGETS, 3) + 0.1)
    assert len(set(found.tolist())) == 3


@pytest.mark.parametrize("pair", [(b"a b c d", b"x"), (b"a b c d", b"x y z w"), (b"a", b"x y z w")])
def test_a_pair_that_no_network_has_seen_has_the_mean(pair: tuple[bytes, bytes]) -> None:
    scorer = FoldScorer([Numbered(0), Numbered(1), Numbered(5)], max_phrase_words=3)
    values = scorer.values(Batch([SOURCES[0], pair[0]], [TARGETS[0], pair[1]]))
    fold = folds_of(SOURCES[:1], TARGETS[:1], 3)[0]
    expected = [(0, 1, 5)[fold] + 0.1, 2 + 0.1 * len(pair[0].split())]
    assert values.tolist() == pytest.approx(expected)


def test_values_do_not_depend_on_the_batch() -> None:
    scorer = FoldScorer([Numbered(0), Numbered(1)], max_phrase_words=3)
    whole = scorer.values(Batch(SOURCES, TARGETS))
    alone = [scorer.values(Batch([s], [t]))[0] for s, t in zip(SOURCES, TARGETS, strict=True)]
    assert whole.tolist() == alone
    assert scorer.values(Batch([], [])).shape == (0,)


def test_what_networks_need_and_know() -> None:
    scorer = FoldScorer([Numbered(0), Numbered(1, needs_links=True)], max_phrase_words=3)
    assert scorer.needs_links and scorer.shortlist is SHORTLIST
    assert not FoldScorer([Numbered(0), Numbered(1)], 3).needs_links


def test_a_pair_without_a_value_is_named_by_its_row() -> None:
    scorers = [Numbered(number, refused=b"s17") for number in (0, 1)]
    with pytest.raises(UnfitPair) as caught:
        FoldScorer(scorers, max_phrase_words=3).values(Batch(SOURCES, TARGETS))
    assert caught.value.row == 17 and str(caught.value).startswith("'s17 ||| t3': found a word")
