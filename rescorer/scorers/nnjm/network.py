"""The network of an NNJM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.errors import ConfigError
from rescorer.windows.feed_forward import FeedForward, LayerWidths


@dataclass(frozen=True)
class NnjmConfig:
    """Sizes of an NNJM; those of Devlin et al. (2014), section 2, in parentheses.

    Attributes:
        history_words: previous target words seen (3).
        source_words: source words seen, an odd number: those around the affiliated one (11).
        embedding_width: width of a word's vector (192).
        first_width: width of the first hidden layer (512).
        second_width: width of the second hidden layer (512); 0 leaves it out.
    """

    history_words: Annotated[int, AtLeast(1)] = 3
    source_words: Annotated[int, AtLeast(1)] = 11
    embedding_width: Annotated[int, AtLeast(1)] = 128
    first_width: Annotated[int, AtLeast(1)] = 384
    second_width: Annotated[int, AtLeast(0)] = 160

    def __post_init__(self) -> None:
        check_limits(self)
        if self.source_words % 2 == 0:
            raise ConfigError(
                f"source_words is {self.source_words}, expected an odd number: "
                "as many words before the affiliated one as behind it"
            )


class Nnjm(FeedForward):
    """p(word | previous target words, source words around its own).

    The hidden layers have ReLU, as those of every `FeedForward`; Devlin et al. (2014) have tanh.

    Args:
        config: sizes.
        n_input_words: numbers of words in a window.
        n_words: predicted words.
    """

    def __init__(self, config: NnjmConfig, n_input_words: int, n_words: int) -> None:
        widths = LayerWidths(config.embedding_width, config.first_width, config.second_width)
        window_words = config.history_words + config.source_words
        super().__init__(n_input_words, window_words, widths, n_words)
        self.config = config
