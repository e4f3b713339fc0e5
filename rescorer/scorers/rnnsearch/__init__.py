"""RNNsearch and RNNenc of Bahdanau et al. (ICLR 2015, arXiv 1409.0473, appendix A).

The gated unit is that of `units.py`, whose update gate keeps the old state where the paper's takes the new
one: the same function with W_z, U_z, C_z and the bias negated, since sigma(-x) = 1 - sigma(x). The source
ends with </s>, read as a word.

The word after a prefix is predicted from the prefix's last word and from the state and context before that
word is read: t = U_o s_{i-1} + V_o E y_{i-1} + C_o c_i. So all words after a prefix share the products of
state and context, the larger part of a step.

Notation: batch or n rows; d = hidden_width, E = embedding_width, m = maxout_width, w width of a context, P
places of all sources.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.base.config import AtLeast, Limited
from rescorer.contract.architectures import Architecture
from rescorer.contract.compute import Compute
from rescorer.contract.object_reference import imported_when_called
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists
from rescorer.layers.compiled_gates import MAXOUT_PIECES, compile_gates, maxout
from rescorer.layers.output_layer import output_layer
from rescorer.layers.products import narrow_layers, with_same_weights
from rescorer.layers.step_linear import StepLinear
from rescorer.layers.units import GatedCarried, GatedState, GatedUnit, draw_weights, scale_by_fan_in
from rescorer.scorers.rnnsearch.attention import Places
from rescorer.scorers.rnnsearch.context import (
    CONTEXTS,
    Attention,
    Context,
    ContextName,
    Encoder,
    Readings,
)
from rescorer.training.loop_config import with_first_weights
from rescorer.tries.recurrent import to_device, word_vectors
from rescorer.tries.scoring import TrieScorer, WordTables, generator_with, with_no_word
from rescorer.tries.settings import SentenceTrainingConfig

# Standard deviations of the initial weights, Bahdanau et al. (2015), appendix B.1.
INITIAL_DEVIATION = 0.01
ATTENTION_DEVIATION = 0.001


@dataclass(frozen=True)
class RnnSearchConfig(Limited):
    """Sizes of an RNNsearch; the paper's are 1000, 620, 1000 and 500.

    Attributes:
        context: "attention" is RNNsearch; "last-state" is RNNenc, whose decoder sees the encoder's last state
            alone.
        hidden_width: d, of the decoder and of each direction of the encoder.
        embedding_width: E, of the word vectors.
        attention_width: of the layer that compares a decoder state with an annotation.
        maxout_width: m, units of the readout, each the maximum of two.
    """

    context: ContextName = "attention"
    hidden_width: Annotated[int, AtLeast(1)] = 320
    embedding_width: Annotated[int, AtLeast(1)] = 192
    attention_width: Annotated[int, AtLeast(1)] = 192
    maxout_width: Annotated[int, AtLeast(1)] = 192


class ReadSources(NamedTuple):
    """The decoder's inputs from the sources: s_0, (n_sources, d), and the places that states look at."""

    hidden: Tensor
    places: Places


class DecoderState(NamedTuple):
    """The decoder after a prefix.

    Attributes:
        hidden: s_i, *Shape:* (n, d).
        context: c_{i+1}, a function of s_i, *Shape:* (n, w).
        readout: t~_i, predicted from the state before, *Shape:* (n, 2 m).
    """

    hidden: Tensor
    context: Tensor
    readout: Tensor


class DecoderCarried(NamedTuple):
    """A state with the products shared by all words after it.

    Attributes:
        hidden: s, *Shape:* (n, d).
        gates: U_r s and U_z s side by side, *Shape:* (n, 2 d).
        unit: C_r c, C_z c and C c side by side, *Shape:* (n, 3 d).
        readout: U_o s + C_o c, *Shape:* (n, 2 m).
    """

    hidden: Tensor
    gates: Tensor
    unit: Tensor
    readout: Tensor


class StepInputs(NamedTuple):
    """Inputs of decoder steps from their previous words, one row a step.

    Attributes:
        unit: W_r E y, W_z E y and W E y with biases, *Shape:* (n, 3 d).
        readout: V_o E y, *Shape:* (n, 2 m).
        rows: the source of each step, *Shape:* (n,).
    """

    unit: Tensor
    readout: Tensor
    rows: Tensor


class RnnSearch(nn.Module):
    """log p(target | source) as a sum over the target's words and </s>, natural log.

    Numbers of words include </s> and <unk>; `dropout` is of the word vectors and of the readout.
    """

    def __init__(
        self, config: RnnSearchConfig, n_source_words: int, n_target_words: int, dropout: float
    ) -> None:
        super().__init__()
        d, width, m = config.hidden_width, config.embedding_width, config.maxout_width
        self.config = config
        self.dropout = nn.Dropout(dropout)
        self.source_embedding = nn.Embedding(n_source_words, width)
        self.encoder = Encoder(width, d)
        self.context: Context = CONTEXTS[config.context](d, config.attention_width)
        self.decoder_start_layer = nn.Linear(d, d)
        self.target_embedding = nn.Embedding(n_target_words, width)
        self.decoder = GatedUnit(width, d)
        self.context_to_unit = StepLinear(self.context.width, 3 * d, bias=False)
        self.hidden_to_readout = StepLinear(d, MAXOUT_PIECES * m)
        self.word_to_readout = StepLinear(width, MAXOUT_PIECES * m, bias=False)
        self.context_to_readout = StepLinear(self.context.width, MAXOUT_PIECES * m, bias=False)
        self.output = nn.Linear(m, n_target_words)
        self.initialise(INITIAL_DEVIATION)

    def initialise(self, deviation: float | None) -> None:
        """Draw the weights as in the paper's appendix B.1: N(0, deviation^2), recurrent ones orthogonal.

        The paper has 0.01, in the attention 0.001 and 0 for v; None scales each matrix by its fan-in.
        """

        def draw(name: str, parameter: nn.Parameter) -> None:
            if deviation is None:
                scale_by_fan_in(name, parameter)
            elif name == "context.energy":
                nn.init.zeros_(parameter)
            else:
                std = ATTENTION_DEVIATION if "context." in name else deviation
                nn.init.normal_(parameter, std=std)

        draw_weights(self, draw)

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> ReadSources:
        """See `Recurrent.read`."""
        n_places = lens + 1
        words = ids[:, : int(n_places.max())][np.arange(int(n_places.max())) < n_places[:, None]]
        vectors = self.dropout(self.source_embedding(to_device(words, self.output.weight)))
        firsts = to_device(np.cumsum(n_places) - n_places, vectors)
        to_right, to_left = self.encoder(vectors, n_places)
        places = self.context.places(
            Readings(to_right, to_left, firsts, to_device(n_places, vectors))
        )
        hidden = torch.tanh(self.decoder_start_layer(to_left.index_select(0, firsts)))
        return ReadSources(hidden, places)

    def start(self, source: ReadSources) -> DecoderState:
        """s_0 and c_1 of each source."""
        rows = torch.arange(len(source.hidden), device=source.hidden.device)
        context = self.context(source.hidden, source.places, rows)
        readout = source.hidden.new_zeros(len(rows), self.word_to_readout.out_features)
        return DecoderState(source.hidden, context, readout)

    def inputs(self, words: Tensor, source: ReadSources, rows: Tensor) -> StepInputs:
        """See `Recurrent.inputs`."""
        vectors = self.dropout(word_vectors(self.target_embedding, words))
        return StepInputs(self.decoder.inputs(vectors), self.word_to_readout(vectors), rows)

    def carry(self, state: DecoderState) -> DecoderCarried:
        """See `Recurrent.carry`."""
        return DecoderCarried(
            *self.decoder.carry(GatedState(state.hidden)),
            self.context_to_unit(state.context),
            self.hidden_to_readout(state.hidden) + self.context_to_readout(state.context),
        )

    def step(
        self, carried: DecoderCarried, inputs: StepInputs, source: ReadSources
    ) -> DecoderState:
        """s_i and c_{i+1}."""
        unit = GatedCarried(carried.hidden, carried.gates)
        hidden = self.decoder.step(unit, inputs.unit + carried.unit).hidden
        context = self.context(hidden, source.places, inputs.rows)
        return DecoderState(hidden, context, carried.readout + inputs.readout)

    def factors(self, state: DecoderState, inputs: StepInputs, source: ReadSources) -> Tensor:
        """t_i, *Shape:* (n, m)."""
        factors: Tensor = self.dropout(maxout(state.readout))
        return factors


@dataclass(frozen=True)
class RnnSearchTrainingConfig(SentenceTrainingConfig):
    """Settings of the training of an RNNsearch or RNNenc.

    Attributes:
        model: sizes.
    """

    model: RnnSearchConfig = field(default_factory=RnnSearchConfig)


def new_network(config: RnnSearchTrainingConfig, shortlists: Shortlists) -> RnnSearch:
    """A network with initial weights."""
    return with_first_weights(empty_network(config, shortlists), config, INITIAL_DEVIATION)


def empty_network(config: RnnSearchTrainingConfig, shortlists: Shortlists) -> RnnSearch:
    """A network before its weights are loaded."""
    source, target = shortlists
    return RnnSearch(config.model, len(source or ()), len(target), config.dropout)


RnnSearchScorer = TrieScorer[ReadSources, DecoderState, DecoderCarried, StepInputs]


class RnnSearchTables(WordTables[ReadSources, DecoderState, DecoderCarried, StepInputs]):
    """An RNNsearch with lookup tables for products of target words.

    Products have the type `dtype`; sums, gates, attention and softmax are always float32.
    """

    @torch.inference_mode()
    def __init__(self, network: RnnSearch, dtype: torch.dtype) -> None:
        self._narrow = in_precision(network, dtype)
        super().__init__(self._narrow, network.output)
        with_none = with_no_word(network.target_embedding.weight)
        self._unit_inputs = network.decoder.inputs(with_none)
        self._readout_inputs: Tensor = network.word_to_readout(with_none)

    def inputs(self, words: Tensor, source: ReadSources, rows: Tensor) -> StepInputs:
        """See `Recurrent.inputs`."""
        return StepInputs(self._unit_inputs[words], self._readout_inputs[words], rows)


class AttentiveTables(RnnSearchTables):
    """Tables of a network with attention, which also gives the attention of its steps."""

    def attention(self, carried: DecoderCarried, inputs: StepInputs, source: ReadSources) -> Tensor:
        """See `tries.generation.Attentive`: of the state before the step, which predicts the next word."""
        context = self._narrow.context
        assert isinstance(context, Attention)
        return context.weights(carried.hidden, source.places, inputs.rows)


def in_precision(network: RnnSearch, dtype: torch.dtype) -> RnnSearch:
    """The same network with step products of a type; products of words are few."""
    narrow = with_same_weights(network)
    for module in list(narrow.modules()):
        for name, layer in list(module.named_children()):
            if isinstance(layer, StepLinear) and name != "input":
                narrow_layers(module, [name], dtype)
    compile_gates(narrow)
    return narrow


def rnnsearch_scorer(model: TrainedModel[RnnSearch], compute: Compute) -> RnnSearchScorer:
    """Natural log p(target | source) under an RNNsearch, for whole n-best lists."""
    network = model.network.to(compute.place)
    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    attends = network.config.context == "attention"
    tables = (AttentiveTables if attends else RnnSearchTables)(network, compute.dtype)
    return TrieScorer(tables, layer, model.shortlists)


ARCHITECTURE = Architecture(
    data="parallel text",
    settings=RnnSearchTrainingConfig,
    prepare=imported_when_called("rescorer.tries.sentences:prepare_sentences", new_network),
    network=empty_network,
    scorer=rnnsearch_scorer,
    generator=generator_with(rnnsearch_scorer),
)
