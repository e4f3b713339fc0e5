"""CSTM, the continuous space translation model of Schwenk (COLING 2012, posters, pages 1071-1080).

A source phrase fills a fixed number of places, empty ones behind its words. Their vectors, side by side,
go through hidden layers that all target words share, and each place of the target has a softmax of its own:

    p(t_1 ... t_m | s) = product over k of p_k(t_k | s), with t_{m+1} = </s>

Given the source, the target's words know nothing of each other. Three things differ from the authors' program:
</s> is predicted behind the last word (behind the last place it is sure), so that the probabilities of all
targets add up to 1; the value is the sum of the logarithms, not their mean; and a word outside the shortlist is
<unk>, where a pair with such a word has the table's probability there.

Notation: n sources, N places on each side, r embedding_width, d width of the last hidden layer, V predicted
words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.base.config import AtLeast, check_limits
from rescorer.layers.initial_weights import scale_by_fan_in

# Initial weights of the paper's recipe: those of the authors' program, cslm-toolkit.
INITIAL_LIMIT = 0.1


@dataclass(frozen=True)
class CstmConfig:
    """Sizes of a CSTM.

    Attributes:
        phrase_words: N, words of a phrase at most on each side (7 in the paper, as in Moses's tables); a
            model cannot score longer ones.
        embedding_width: r, of a source word's vector.
        first_width: of the first hidden layer.
        second_width: of the second hidden layer; 0 leaves it out.
    """

    phrase_words: Annotated[int, AtLeast(1)] = 7
    embedding_width: Annotated[int, AtLeast(1)] = 100
    first_width: Annotated[int, AtLeast(1)] = 256
    second_width: Annotated[int, AtLeast(0)] = 128

    def __post_init__(self) -> None:
        check_limits(self)

    @property
    def last_width(self) -> int:
        """d, of the layer below the softmaxes."""
        return self.second_width or self.first_width


class Cstm(nn.Module):
    """p_k(word | source) for each place k of the target, exactly normalised.

    Args:
        config: the sizes.
        n_source_words: source shortlist with </s> and <unk>.
        n_target_words: V, target shortlist with </s> and <unk>.
    """

    def __init__(self, config: CstmConfig, n_source_words: int, n_target_words: int) -> None:
        super().__init__()
        self.config = config
        self.empty_id = n_source_words
        self.embedding = nn.Embedding(n_source_words + 1, config.embedding_width)
        self.first = nn.Linear(config.phrase_words * config.embedding_width, config.first_width)
        self.second = (
            nn.Linear(config.first_width, config.second_width) if config.second_width else None
        )
        self.outputs = nn.ModuleList(
            nn.Linear(config.last_width, n_target_words) for _ in range(config.phrase_words)
        )
        self.initialise(INITIAL_LIMIT)

    def initialise(self, limit: float | None) -> None:
        """Draw matrices between -limit and limit, and set biases to 0; None scales matrices by their fan-in."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif limit is None:
                scale_by_fan_in(name, parameter)
            else:
                nn.init.uniform_(parameter, -limit, limit)

    @property
    def output_layers(self) -> list[nn.Linear]:
        """The layer of each place's softmax, the first place first."""
        return [layer for layer in self.outputs if isinstance(layer, nn.Linear)]

    def hidden(self, windows: Tensor) -> Tensor:
        """The last hidden layer.

        Args:
            windows: source words by place, `empty_id` behind them, *Shape:* (n, N).

        Returns:
            *Shape:* (n, d).
        """
        first = torch.tanh(self.first(self.embedding(windows).flatten(1)))
        return first if self.second is None else torch.tanh(self.second(first))

    def log_probs(self, windows: Tensor, targets: Tensor, target_lens: Tensor) -> Tensor:
        """Natural log p(target | source), pair by pair: the plain path that others are tested with.

        Args:
            windows: see `hidden`, *Shape:* (n, N).
            targets: ids, </s> behind the last word of each, *Shape:* (n, target_len + 1).
            target_lens: words without </s>, N at most, *Shape:* (n,).

        Returns:
            *Shape:* (n,).
        """
        hidden, total = self.hidden(windows), windows.new_zeros(len(windows), dtype=torch.float32)
        for place, layer in enumerate(self.outputs[: targets.shape[1]]):
            words = targets[:, place : place + 1]
            found = torch.log_softmax(layer(hidden), dim=1).gather(1, words).squeeze(1)
            total = total + torch.where(place <= target_lens, found, 0.0)
        return total


def source_windows(
    ids: NDArray[np.int32], lens: NDArray[np.int64], n_places: int, empty_id: int
) -> NDArray[np.int32]:
    """Source phrases by place.

    Args:
        ids: of the words, *Shape:* (n, max_len + 1).
        lens: words of each, *Shape:* (n,).
        n_places: N, not less than the longest phrase.
        empty_id: the word of empty places.

    Returns:
        *Shape:* (n, N).

    Raises:
        ValueError: a phrase is longer.
    """
    if int(lens.max(initial=0)) > n_places:
        raise ValueError(f"{lens.max()} words in {n_places} places")
    windows = np.full((len(ids), n_places), empty_id, np.int32)
    width = min(ids.shape[1], n_places)
    inside = np.arange(width) < lens[:, None]
    windows[:, :width][inside] = ids[:, :width][inside]
    return windows
