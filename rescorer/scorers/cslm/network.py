"""CSLM: a feed-forward n-gram language model over the target shortlist (Schwenk 2007; Cho et al. 2014).

V is the shortlist with </s> and <unk>; the input knows one word more, <s>, whose id is V.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from moses_bridge.base.config import AtLeast, check_limits
from rescorer.windows.feed_forward import FeedForward, LayerWidths


@dataclass(frozen=True)
class CslmConfig:
    """Sizes of a CSLM.

    Attributes:
        context_words: previous words that are seen (6 in Cho et al. 2014: a 7-gram model).
        embedding_width: width of a word's vector (512 there).
        first_width: width of the first hidden layer (1536 there).
        second_width: width of the second hidden layer (1024 there); 0 leaves it out.
    """

    context_words: Annotated[int, AtLeast(1)] = 6
    embedding_width: Annotated[int, AtLeast(1)] = 128
    first_width: Annotated[int, AtLeast(1)] = 256
    second_width: Annotated[int, AtLeast(0)] = 128

    def __post_init__(self) -> None:
        check_limits(self)


class Cslm(FeedForward):
    """p(word | previous words); the window is ordered as the words stand in the text.

    Args:
        config: sizes.
        n_words: V.
    """

    def __init__(self, config: CslmConfig, n_words: int) -> None:
        widths = LayerWidths(config.embedding_width, config.first_width, config.second_width)
        super().__init__(n_words + 1, config.context_words, widths, n_words)
        self.config = config
        self.n_words = n_words

    @property
    def start_id(self) -> int:
        """The id of <s>, which pads the context at the start of a sentence."""
        return self.n_words
