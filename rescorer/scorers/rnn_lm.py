"""RNN language model: p(word | all previous words of the sentence), from the sentence's start to </s>.

Mikolov et al. (2010) with a gated unit (Cho et al. 2014) or an LSTM (Sundermeyer et al. 2012), and a narrow
linear layer below the softmax, the expensive part of a large shortlist. Its value is log p(target).

Notation: n rows; d = hidden_width, r = embedding_width, f = factor_width, V = shortlist with </s> and <unk>.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.base.config import AtLeast, Limited
from moses_bridge.base.errors import InputError
from moses_bridge.formats.words import turned_words
from rescorer.contract.architectures import AS_A_SENTENCE, Architecture
from rescorer.contract.choices import goes_right_to_left
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary, count_words
from rescorer.layers.compiled_gates import compile_gates
from rescorer.layers.output_layer import output_layer, start_normalised
from rescorer.layers.products import narrow_layers, with_same_weights
from rescorer.layers.units import UnitName, draw_weights, new_unit, scale_by_fan_in
from rescorer.training.seeded_batch import digest, held_out_mask
from rescorer.training.text import mapped_text, read_text
from rescorer.tries.recurrent import unit_states
from rescorer.tries.scoring import TrieScorer, WordTables, generator_with
from rescorer.tries.sentences import EncodedText, text_task
from rescorer.tries.settings import TextTrainingConfig


@dataclass(frozen=True)
class RnnLmConfig(Limited):
    """Sizes of an RNN language model.

    Attributes:
        unit: recurrent unit: "gated" or "lstm".
        hidden_width: d, of the state.
        embedding_width: r, of the word vectors.
        factor_width: f, of the layer below the softmax; 0 leaves it out, and the softmax reads the state.
    """

    unit: UnitName = "lstm"
    hidden_width: Annotated[int, AtLeast(1)] = 256
    embedding_width: Annotated[int, AtLeast(1)] = 128
    factor_width: Annotated[int, AtLeast(0)] = 128


class NoSource(NamedTuple):
    """A language model's knowledge of the sources: one empty row for each, *Shape:* (n, 0)."""

    rows: Tensor


class WordInputs(NamedTuple):
    """Inputs of steps from their previous words: pre-activations of the unit, (n, 3 d), of an LSTM (n, 4 d)."""

    unit: Tensor


class RnnLm(nn.Module):
    """log p(target) as a sum over the words and </s>, natural log; the source is ignored.

    The input has one word more than the output: <s>, whose id n_words is V.
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

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> NoSource:
        """See `Recurrent.read`."""
        return NoSource(self.output.weight.new_zeros(len(ids), 0))

    def start(self, source: NoSource) -> Any:
        """See `Recurrent.start`."""
        return self.unit.start(len(source.rows))

    def inputs(self, words: Tensor, source: NoSource, rows: Tensor) -> WordInputs:
        """See `Recurrent.inputs`; NO_WORD, -1, selects the last row: that of <s>."""
        return WordInputs(self.unit.inputs(self.embedding(words % self.embedding.num_embeddings)))

    def carry(self, state: Any) -> Any:
        """See `Recurrent.carry`."""
        return self.unit.carry(state)

    def step(self, carried: Any, inputs: WordInputs, source: NoSource) -> Any:
        """See `Recurrent.step`."""
        return self.unit.step(carried, inputs.unit)

    def states(
        self, start: Any, parents: Sequence[NDArray[np.int64]], inputs: WordInputs, source: NoSource
    ) -> Any:
        """See `StatesAtOnce.states`."""
        return unit_states(self.unit, start, parents, inputs.unit)

    def factors(self, state: Any, inputs: WordInputs, source: NoSource) -> Tensor:
        """F h, *Shape:* (n, f), or h itself, *Shape:* (n, d)."""
        hidden: Tensor = state.hidden
        return hidden if self.factor is None else self.factor(hidden)


@dataclass(frozen=True)
class RnnLmTrainingConfig(TextTrainingConfig):
    """Settings of the training of an RNN language model.

    Attributes:
        model: sizes.
    """

    model: RnnLmConfig = field(default_factory=RnnLmConfig)


def prepare(data: Data, config: RnnLmTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`; InputError if the text is empty, or all its sentences are too long."""
    lines = read_text(data.path)

    def sentences() -> Iterable[bytes]:
        return map(turned_words, lines) if goes_right_to_left(config.reading) else lines

    shortlists = data.shortlists or Shortlists(
        None, Vocabulary.from_counts(count_words(sentences()), config.shortlist)
    )
    network = empty_network(config, shortlists)
    if config.self_normalisation:
        start_normalised(network.output)
    held_out = held_out_mask(len(lines), config.n_held_out, seed)
    text = EncodedText(*mapped_text(shortlists.target, sentences()))
    if not (~held_out & (text.lens <= config.max_sentence_words)).any():
        raise InputError(
            data.path,
            None,
            "no sentence that is short enough",
            f"sentences of at most {config.max_sentence_words} words",
            "Raise max_sentence_words in --config",
        )
    task = text_task(network, text, held_out, config, seed)
    return Prepared(network, task, shortlists, digest(sentences()), {"n_sentences": len(lines)})


def empty_network(config: RnnLmTrainingConfig, shortlists: Shortlists) -> RnnLm:
    """A network with initial weights."""
    return RnnLm(config.model, len(shortlists.target))


RnnLmScorer = TrieScorer[NoSource, Any, Any, WordInputs]


class RnnLmTables(WordTables[NoSource, Any, Any, WordInputs]):
    """An RNN language model with lookup tables for products of single words; a `Recurrent`.

    Products have the type `dtype`; sums, gates and softmax are always float32.
    """

    @torch.inference_mode()
    def __init__(self, network: RnnLm, dtype: torch.dtype) -> None:
        super().__init__(_in_precision(network, dtype), network.output)
        self._word_inputs = network.unit.inputs(network.embedding.weight)

    def inputs(self, words: Tensor, source: NoSource, rows: Tensor) -> WordInputs:
        """See `Recurrent.inputs`; NO_WORD, -1, selects the last row: that of <s>."""
        return WordInputs(self._word_inputs[words])


def _in_precision(network: RnnLm, dtype: torch.dtype) -> RnnLm:
    narrow = with_same_weights(network)
    narrow_layers(narrow.unit, narrow.unit.recurrent_layers, dtype)
    if narrow.factor is not None:
        narrow_layers(narrow, ["factor"], dtype)
    compile_gates(narrow)
    return narrow


def rnn_lm_scorer(model: TrainedModel[RnnLm], compute: Compute) -> RnnLmScorer:
    """Natural log p(target) under an RNN language model; the source is ignored.

    A phrase is scored as a sentence of its own, from its start to </s>: in a table's column this is an
    approximation, since the phrase will be surrounded by other words.
    """
    network = model.network.to(compute.place)
    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return TrieScorer(RnnLmTables(network, compute.dtype), layer, model.shortlists)


ARCHITECTURE = Architecture(
    data="text",
    settings=RnnLmTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=rnn_lm_scorer,
    generator=generator_with(rnn_lm_scorer),
    column_note=AS_A_SENTENCE,
)
