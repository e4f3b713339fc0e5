"""Continuous-space phrase model of Gao et al. (ACL 2014) over bags of words.

A phrase is the counts x of its words over one vocabulary of both languages, and one network makes codes of
the phrases of either language:

    y = tanh(W_2' tanh(W_1' x))

The value of a pair is y_source . y_target, between minus and plus the number of units. It neither knows the
order of the words nor is a log-probability.

Notation: n phrases, H hidden_width, D code_width, V words of both languages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from moses_bridge.base.config import AtLeast, check_limits
from rescorer.layers.initial_weights import WORD_DEVIATION


@dataclass(frozen=True)
class CptmConfig:
    """Sizes of a continuous-space phrase model.

    Attributes:
        hidden_width: H, units of the first layer (100 in the paper).
        code_width: D, units of the second one (100 in the paper).
    """

    hidden_width: Annotated[int, AtLeast(1)] = 100
    code_width: Annotated[int, AtLeast(1)] = 100

    def __post_init__(self) -> None:
        check_limits(self)


class Cptm(nn.Module):
    """Codes of phrases of both languages.

    Args:
        config: the sizes.
        n_words: V, with </s> (which is in no bag) and <unk>.
    """

    def __init__(self, config: CptmConfig, n_words: int) -> None:
        super().__init__()
        self.config = config
        self.word_vectors = nn.Embedding(n_words, config.hidden_width)
        self.projection = nn.Linear(config.hidden_width, config.code_width, bias=False)
        self.initialise()

    def initialise(self) -> None:
        """Draw W_1 from N(0, 0.1^2); W_2 is the identity at first, as the paper's."""
        nn.init.normal_(self.word_vectors.weight, std=WORD_DEVIATION)
        nn.init.eye_(self.projection.weight)

    def codes(self, ids: NDArray[np.integer], lens: NDArray[np.int64]) -> Tensor:
        """The codes y of phrases, *Shape:* (n, D).

        Args:
            ids: of the words in the joint vocabulary, *Shape:* (n, max_len or more).
            lens: words of each phrase, *Shape:* (n,).
        """
        weight = self.word_vectors.weight
        inside = np.arange(ids.shape[1]) < lens[:, None]
        words = torch.from_numpy(ids[inside].astype(np.int64)).to(weight.device)
        starts = torch.from_numpy(np.cumsum(lens) - lens).to(weight.device)
        sums = embedding_bag(words, weight, starts, mode="sum")
        return torch.tanh(self.projection(torch.tanh(sums)))


def similarities(one: Tensor, other: Tensor) -> Tensor:
    """The products of codes, row by row, *Shape:* (n, D) -> (n,)."""
    return (one * other).sum(1)
