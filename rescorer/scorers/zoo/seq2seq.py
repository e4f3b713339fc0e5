"""Deep LSTM encoder-decoder of Sutskever et al. (NIPS 2014, arXiv 1409.3215).

The decoder starts from the encoder's states of every layer and sees the source nowhere else. As in the other
networks here, the encoder reads </s> after the last word it reads, and the decoder's first input is a zero
vector, where the paper's is </s>.

Notation: n rows; d = hidden_width of each layer, L layers.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

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
from rescorer.layers.output_layer import output_layer
from rescorer.layers.products import narrow_layers
from rescorer.layers.units import LstmCarried, LstmState, LstmUnit, scale_by_fan_in
from rescorer.training.loop_config import with_first_weights
from rescorer.tries.prefix_tree import build_prefix_tree
from rescorer.tries.recurrent import last_states, to_device, word_vectors
from rescorer.tries.scoring import TrieScorer, generator_with
from rescorer.tries.settings import SentenceTrainingConfig

# Initial weights lie between -0.08 and 0.08: Sutskever et al. (2014), section 3.4.
INITIAL_LIMIT = 0.08


class LstmStack(nn.Module):
    """L layers without peepholes; h, c and products of all layers are side by side, the lowest first.

    d is the width of each layer, `dropout` the share dropped between layers in training.
    """

    def __init__(self, input_width: int, hidden_width: int, n_layers: int, dropout: float) -> None:
        super().__init__()
        self.hidden_width = hidden_width
        self.state_width = 2 * n_layers * hidden_width
        self.recurrent_layers = tuple(f"layers.{number}.recurrent" for number in range(n_layers))
        self.dropout = nn.Dropout(dropout)
        widths = [input_width, *[hidden_width] * (n_layers - 1)]
        self.layers = nn.ModuleList(LstmUnit(width, hidden_width) for width in widths)

    @property
    def units(self) -> list[LstmUnit]:
        """The layers, lowest first."""
        return [layer for layer in self.layers if isinstance(layer, LstmUnit)]

    @property
    def input(self) -> nn.Linear:
        """The layer of `inputs`."""
        return self.units[0].input

    def reset_bias(self) -> None:
        """See `LstmUnit.reset_bias`."""
        for unit in self.units:
            unit.reset_bias()

    def state(self, fields: Tensor) -> LstmState:
        """The halves h and c of *Shape:* (n, 2 L d)."""
        return LstmState(*fields.chunk(2, dim=1))

    def start(self, n_rows: int) -> LstmState:
        """h_0 = c_0 = 0, *Shape:* (n_rows, L d) each."""
        bias: Tensor = self.units[0].input.bias
        zeros = bias.new_zeros(n_rows, len(self.layers) * self.hidden_width)
        return LstmState(zeros, zeros)

    def inputs(self, x: Tensor) -> Tensor:
        """Those of the lowest layer, *Shape:* (n, input_width) -> (n, 4 d)."""
        return self.units[0].inputs(x)

    def carry(self, state: LstmState) -> LstmCarried:
        """The products of each layer's h, *Shape:* (n, 4 L d), and all c."""
        parts = torch.split(state.hidden, self.hidden_width, dim=1)
        products = [unit.recurrent(part) for unit, part in zip(self.units, parts, strict=True)]
        return LstmCarried(state.cell, torch.cat(products, dim=1))

    def step(self, carried: LstmCarried, inputs: Tensor) -> LstmState:
        """One step of all layers from the states before; inputs of the lowest layer are *Shape:* (n, 4 d)."""
        d = self.hidden_width
        states: list[LstmState] = []
        cells = torch.split(carried.cell, d, dim=1)
        products = torch.split(carried.products, 4 * d, dim=1)
        for unit, cell, product in zip(self.units, cells, products, strict=True):
            if states:
                inputs = unit.inputs(self.dropout(states[-1].hidden))
            states.append(unit.step(LstmCarried(cell, product), inputs))
        return LstmState(*(torch.cat(parts, dim=1) for parts in zip(*states, strict=True)))


@dataclass(frozen=True)
class Seq2SeqConfig(Limited):
    """Sizes of a deep LSTM encoder-decoder; the paper's are 4, 1000 and 1000.

    Attributes:
        n_layers: L, of the encoder and of the decoder.
        hidden_width: d, of each layer.
        embedding_width: of the word vectors.
        source_order: "reversed" reads the last word of the source first (section 3.3 of the paper).
    """

    n_layers: Annotated[int, AtLeast(1)] = 2
    hidden_width: Annotated[int, AtLeast(1)] = 320
    embedding_width: Annotated[int, AtLeast(1)] = 192
    source_order: Literal["reversed", "forward"] = "reversed"


class WordInputs(NamedTuple):
    """Inputs of decoder steps from their previous words: pre-activations of the lowest layer, (n, 4 d)."""

    unit: Tensor


class Seq2Seq(nn.Module):
    """log p(target | source) as a sum over the target's words and </s>, natural log.

    Numbers of words include </s> and <unk>; `dropout` is of word vectors, between layers and of the last layer.
    """

    def __init__(
        self, config: Seq2SeqConfig, n_source_words: int, n_target_words: int, dropout: float
    ) -> None:
        super().__init__()
        d, width = config.hidden_width, config.embedding_width
        self.config = config
        self.dropout = nn.Dropout(dropout)
        self.source_embedding = nn.Embedding(n_source_words, width)
        self.encoder = LstmStack(width, d, config.n_layers, dropout)
        self.target_embedding = nn.Embedding(n_target_words, width)
        self.decoder = LstmStack(width, d, config.n_layers, dropout)
        self.output = nn.Linear(d, n_target_words)
        self.initialise(INITIAL_LIMIT)

    def initialise(self, limit: float | None) -> None:
        """Draw all weights from [-limit, limit], as in the paper; None scales matrices by their fan-in."""
        for name, parameter in self.named_parameters():
            if limit is not None:
                nn.init.uniform_(parameter, -limit, limit)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                scale_by_fan_in(name, parameter)
        if limit is None:
            self.encoder.reset_bias()
            self.decoder.reset_bias()

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> LstmState:
        """See `Recurrent.read`; equal beginnings, in reading order, are computed once."""
        if self.config.source_order == "reversed":
            ids = reversed_words(ids, lens)
        tree = build_prefix_tree(ids, lens + 1)
        vectors = self.source_embedding(to_device(tree.words, self.output.weight))
        return last_states(self.encoder, tree, self.encoder.inputs(self.dropout(vectors)))

    def start(self, source: LstmState) -> LstmState:
        """The encoder's last states."""
        return source

    def inputs(self, words: Tensor, source: LstmState, rows: Tensor) -> WordInputs:
        """See `Recurrent.inputs`."""
        vectors = self.dropout(word_vectors(self.target_embedding, words))
        return WordInputs(self.decoder.inputs(vectors))

    def carry(self, state: LstmState) -> LstmCarried:
        """See `Recurrent.carry`."""
        return self.decoder.carry(state)

    def step(self, carried: LstmCarried, inputs: WordInputs, source: LstmState) -> LstmState:
        """See `Recurrent.step`."""
        return self.decoder.step(carried, inputs.unit)

    def factors(self, state: LstmState, inputs: WordInputs, source: LstmState) -> Tensor:
        """H of the highest layer, *Shape:* (n, d)."""
        factors: Tensor = self.dropout(state.hidden[:, -self.config.hidden_width :])
        return factors


def reversed_words(ids: NDArray[np.int32], lens: NDArray[np.int64]) -> NDArray[np.int32]:
    """The words of each row, last word first; </s> stays after them.

    `ids` has the *Shape:* (n, max_len + 1), `lens` counts the words of each, *Shape:* (n,).
    """
    places = np.arange(ids.shape[1])
    own = lens[:, None]
    return np.take_along_axis(ids, np.where(places < own, own - 1 - places, places), axis=1)


@dataclass(frozen=True)
class Seq2SeqTrainingConfig(SentenceTrainingConfig):
    """Settings of the training of a deep LSTM encoder-decoder.

    Attributes:
        model: sizes.
    """

    model: Seq2SeqConfig = field(default_factory=Seq2SeqConfig)


def new_network(config: Seq2SeqTrainingConfig, shortlists: Shortlists) -> Seq2Seq:
    """A network with initial weights."""
    return with_first_weights(empty_network(config, shortlists), config, INITIAL_LIMIT)


def empty_network(config: Seq2SeqTrainingConfig, shortlists: Shortlists) -> Seq2Seq:
    """A network before its weights are loaded."""
    source, target = shortlists
    return Seq2Seq(config.model, len(source or ()), len(target), config.dropout)


Seq2SeqScorer = TrieScorer[LstmState, LstmState, LstmCarried, WordInputs]


def seq2seq_scorer(model: TrainedModel[Seq2Seq], compute: Compute) -> Seq2SeqScorer:
    """Natural log p(target | source) under a deep LSTM encoder-decoder."""
    network = model.network.to(compute.place)
    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return TrieScorer(in_precision(network, compute.dtype), layer, model.shortlists)


def in_precision(network: Seq2Seq, dtype: torch.dtype) -> Seq2Seq:
    """The same network with the products of states of a type; products of words are few."""
    if dtype == torch.float32:
        return network
    narrow = copy.deepcopy(network)
    for stack in (narrow.encoder, narrow.decoder):
        _narrow(stack, dtype)
    return narrow


def _narrow(stack: LstmStack, dtype: torch.dtype) -> None:
    for number, unit in enumerate(stack.units):
        narrow_layers(unit, ("recurrent", "input") if number else ("recurrent",), dtype)


ARCHITECTURE = Architecture(
    data="parallel text",
    settings=Seq2SeqTrainingConfig,
    prepare=imported_when_called("rescorer.tries.sentences:prepare_sentences", new_network),
    network=empty_network,
    scorer=seq2seq_scorer,
    generator=generator_with(seq2seq_scorer),
)
