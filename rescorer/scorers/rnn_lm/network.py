"""RNN language model: p(word | all words before it in the sentence), from the sentence's start to </s>.

Mikolov et al. (2010) with a gated unit (Cho et al. 2014) or an LSTM (Sundermeyer et al. 2012), and a narrow
linear layer below the softmax, which is the dear part of a large shortlist.

Notation: n rows; d = hidden_width, r = embedding_width, f = factor_width, V = shortlist with </s> and <unk>.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.base.config import AtLeast, check_limits
from rescorer.layers.initial_weights import draw_weights, scale_by_fan_in
from rescorer.layers.output_layer import start_normalised
from rescorer.layers.units import UnitName, new_unit
from rescorer.tries.recurrent import plain_log_probs


@dataclass(frozen=True)
class RnnLmConfig:
    """Sizes of an RNN language model.

    Attributes:
        unit: recurrent unit: "gated" or "lstm".
        hidden_width: d, of the state.
        embedding_width: r, of the word vectors.
        factor_width: f, of what the softmax stands on; 0 lets it stand on the state.
    """

    unit: UnitName = "lstm"
    hidden_width: Annotated[int, AtLeast(1)] = 256
    embedding_width: Annotated[int, AtLeast(1)] = 128
    factor_width: Annotated[int, AtLeast(0)] = 128

    def __post_init__(self) -> None:
        check_limits(self)


class NoSource(NamedTuple):
    """What a language model knows of each source: nothing.

    Attributes:
        rows: as many rows as sources, without numbers, *Shape:* (n, 0).
    """

    rows: Tensor


class WordInputs(NamedTuple):
    """What steps take from their previous words.

    Attributes:
        unit: pre-activations of the unit, *Shape:* (n, 3 d), of an LSTM (n, 4 d).
    """

    unit: Tensor


class RnnLm(nn.Module):
    """log p(target) as a sum over the words and </s>, natural log; the source is ignored.

    The input knows one word more than the output: <s>, whose id is V.

    Args:
        config: sizes.
        n_words: V.
    """

    def __init__(self, config: RnnLmConfig, n_words: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(n_words + 1, config.embedding_width)
        self.unit = new_unit(config.unit, config.embedding_width, config.hidden_width)
        last = config.factor_width or config.hidden_width
        self.factor = (
            nn.Linear(config.hidden_width, last, bias=False) if config.factor_width else None
        )
        self.output = nn.Linear(last, n_words)
        self.initialise()

    def initialise(self) -> None:
        """N(0, 0.1^2) for words, orthogonal recurrent matrices, the others scaled by their fan-in."""
        draw_weights(self, scale_by_fan_in)
        self.unit.reset_bias()

    def start_normalised(self) -> None:
        """See `rescorer.layers.output_layer.start_normalised`."""
        start_normalised(self.output)

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> NoSource:
        """See `Recurrent.read`."""
        return NoSource(self.output.weight.new_zeros(len(ids), 0))

    def start(self, source: NoSource) -> Any:
        """See `Recurrent.start`."""
        return self.unit.start(len(source.rows))

    def word_inputs(self) -> Tensor:
        """Pre-activations of the unit for each word, <s> the last one, *Shape:* (V + 1, any)."""
        return self.unit.inputs(self.embedding.weight)

    def inputs(self, words: Tensor, source: NoSource, rows: Tensor) -> WordInputs:
        """See `Recurrent.inputs`; NO_WORD, which is -1, takes the last row: that of <s>."""
        return WordInputs(self.unit.inputs(self.embedding(words % self.embedding.num_embeddings)))

    def carry(self, state: Any) -> Any:
        """See `Recurrent.carry`."""
        return self.unit.carry(state)

    def step(self, carried: Any, inputs: WordInputs, source: NoSource) -> Any:
        """See `Recurrent.step`."""
        return self.unit.step(carried, inputs.unit)

    def factors(self, state: Any, inputs: WordInputs, source: NoSource) -> Tensor:
        """F h, *Shape:* (n, f), or h itself, *Shape:* (n, d)."""
        hidden: Tensor = state.hidden
        return hidden if self.factor is None else self.factor(hidden)

    def log_probs(self, target: Tensor, target_lens: Tensor) -> Tensor:
        """Natural log p(target), sentence by sentence: the plain path that others are tested with.

        Args:
            target: ids, </s> behind the last word of each, *Shape:* (batch, target_len + 1).
            target_lens: words without </s>, *Shape:* (batch,).

        Returns:
            *Shape:* (batch,).
        """
        source = NoSource(self.output.weight.new_zeros(len(target), 0))
        return plain_log_probs(self, source, target, target_lens)
