"""A model of p(source | target), trained on swapped sides, as a scorer of pairs in their own order.

`in_own_order` knows what a model's record says of sides and of words (`right_to_left.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rescorer.contract.scorer import Batch, Scorer, Side, TrainedModel, UnfitPair
from rescorer.contract.vocabulary import Vocabulary
from rescorer.models.right_to_left import RightToLeft

# Of a column: what its values are the logarithms of.
REVERSED_NOTE = "p(source | target)"
OTHER_SIDE: dict[Side, Side] = {"source": "target", "target": "source"}


class ReversedSides:
    """Natural log p(source | target) of pairs.

    It is no `WordScorer`: what it predicts word by word is the source.

    Args:
        scorer: of a network that reads targets and predicts sources.
        shortlist: the target words that it reads.
    """

    def __init__(self, scorer: Scorer, shortlist: Vocabulary | None) -> None:
        self.scorer = scorer
        self.shortlist = shortlist

    @property
    def needs_links(self) -> bool:
        """See `contract.Scorer`."""
        return self.scorer.needs_links

    def values(self, asked: Batch) -> NDArray[np.float64]:
        """Natural log p(source | target), </s> included; see `contract.Scorer`."""
        try:
            return self.scorer.values(asked.sides_swapped())
        except UnfitPair as error:
            side = OTHER_SIDE[error.side]
            raise UnfitPair(
                error.row, asked, side, error.fault, error.expected, error.hint
            ) from error


def in_own_order(model: TrainedModel[Any], scorer: Scorer) -> Scorer:
    """The scorer of a model for pairs in their own order.

    Args:
        model: with its record.
        scorer: of what the network was trained on; where that was turned it predicts word by word.
    """
    if model.goes_right_to_left:
        words: Any = scorer
        scorer = RightToLeft(words)
    return ReversedSides(scorer, model.shortlists.source) if model.reverses_sides else scorer
