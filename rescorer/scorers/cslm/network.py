"""CSLM: a feed-forward n-gram language model over the target shortlist (Schwenk 2007; Cho et al. 2014).

Notation: n examples, k = context_words, r = embedding_width, d1 = first_width, d2 = second_width,
V = shortlist with </s> and <unk>; the input knows one word more, <s>, whose id is V.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from moses_bridge.config import AtLeast, check_limits

# Cho et al. (2014), section 4.1.2.
INITIAL_RANGE = 0.01


@dataclass(frozen=True)
class CslmConfig:
    """Sizes of a CSLM.

    Attributes:
        context_words: previous words that are seen (6 in Cho et al. 2014: a 7-gram model).
        embedding_width: width of a word's vector (512 there).
        first_width: width of the first hidden layer (1536 there).
        second_width: width of the second hidden layer (1024 there).
    """

    context_words: Annotated[int, AtLeast(1)] = 6
    embedding_width: Annotated[int, AtLeast(1)] = 128
    first_width: Annotated[int, AtLeast(1)] = 256
    second_width: Annotated[int, AtLeast(1)] = 128

    def __post_init__(self) -> None:
        check_limits(self)


class Cslm(nn.Module):
    """p(word | previous words) = softmax(W ReLU(H2 ReLU(H1 [e(w_1) … e(w_k)]))), exactly normalised.

    The context is ordered as the words stand in the text: column 0 is the word furthest away.
    """

    def __init__(self, config: CslmConfig, n_words: int) -> None:
        super().__init__()
        self.config = config
        self.n_words = n_words
        self.embedding = nn.Embedding(n_words + 1, config.embedding_width)
        self.first = nn.Linear(config.context_words * config.embedding_width, config.first_width)
        self.second = nn.Linear(config.first_width, config.second_width)
        self.output = nn.Linear(config.second_width, n_words)
        self.initialise()

    def initialise(self) -> None:
        """Draw embedding and output weights from U(-0.01, 0.01), hidden ones scaled by their fan-in.

        Cho et al. (2014) draw all weights from U(-0.01, 0.01); with the narrow layers that are the
        default here the signal would vanish, hence the scaling of the hidden layers.
        """
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.output.weight, -INITIAL_RANGE, INITIAL_RANGE)
        nn.init.zeros_(self.output.bias)
        for layer in (self.first, self.second):
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)

    @property
    def start_id(self) -> int:
        """The id of <s>, which pads the context at the start of a sentence."""
        return self.n_words

    def hidden(self, contexts: Tensor) -> Tensor:
        """Second hidden layer.

        Args:
            contexts: word ids, *Shape:* (n, context_words).

        Returns:
            *Shape:* (n, second_width).
        """
        first = torch.relu(self.first(self.embedding(contexts).flatten(1)))
        return torch.relu(self.second(first))

    def log_probs(self, contexts: Tensor, words: Tensor) -> Tensor:
        """Natural log of p(word | context).

        Args:
            contexts: word ids, *Shape:* (n, context_words).
            words: word ids, *Shape:* (n,).

        Returns:
            *Shape:* (n,).
        """
        logits = self.output(self.hidden(contexts))
        return -nn.functional.cross_entropy(logits, words, reduction="none")
