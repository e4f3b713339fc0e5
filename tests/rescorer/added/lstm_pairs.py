"""An architecture that the package does not have: an LSTM in the place of the gated unit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rescorer.contract.architectures import Architecture
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists
from rescorer.layers.output_layer import output_layer
from rescorer.tries.phrase_pairs import prepare_recurrent
from rescorer.tries.prefix_tree import build_prefix_tree
from rescorer.tries.recurrent import last_states, to_device
from rescorer.tries.scoring import TrieScorer, generator_with
from rescorer.tries.settings import RecurrentTrainingConfig


class State(NamedTuple):
    hidden: Tensor
    cell: Tensor


class Carried(NamedTuple):
    cell: Tensor
    products: Tensor


class Inputs(NamedTuple):
    unit: Tensor


class LstmUnit(nn.Module):
    """Gates in torch's order: input, forget, cell, output."""

    def __init__(self, input_width: int, hidden_width: int) -> None:
        super().__init__()
        self.input = nn.Linear(input_width, 4 * hidden_width)
        self.recurrent = nn.Linear(hidden_width, 4 * hidden_width, bias=False)

    def start(self, n_rows: int) -> State:
        zeros = self.input.bias.new_zeros(n_rows, self.recurrent.in_features)
        return State(zeros, zeros)

    def inputs(self, x: Tensor) -> Tensor:
        return self.input(x)

    def carry(self, state: State) -> Carried:
        return Carried(state.cell, self.recurrent(state.hidden))

    def step(self, carried: Carried, inputs: Tensor) -> State:
        enter, keep, new, leave = (inputs + carried.products).chunk(4, dim=1)
        cell = torch.sigmoid(keep) * carried.cell + torch.sigmoid(enter) * torch.tanh(new)
        return State(torch.sigmoid(leave) * torch.tanh(cell), cell)


@dataclass(frozen=True)
class Sizes:
    """Sizes.

    Attributes:
        width: of everything.
    """

    width: int = 8


@dataclass(frozen=True)
class LstmConfig(RecurrentTrainingConfig):
    """Settings.

    Attributes:
        model: sizes.
    """

    model: Sizes = field(default_factory=Sizes)


class LstmPairs(nn.Module):
    """The decoder begins with the encoder's last state."""

    def __init__(self, config: LstmConfig, shortlists: Shortlists) -> None:
        super().__init__()
        n_source_words, n_target_words = (len(words or ()) for words in shortlists)
        width = config.model.width
        self.source = nn.Embedding(n_source_words, width)
        # The last row stands for NO_WORD.
        self.target = nn.Embedding(n_target_words + 1, width)
        self.encoder, self.decoder = LstmUnit(width, width), LstmUnit(width, width)
        self.output = nn.Linear(width, n_target_words)

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> State:
        tree = build_prefix_tree(ids, lens + 1)
        vectors = self.source(to_device(tree.words, self.output.weight))
        return last_states(self.encoder, tree, self.encoder.inputs(vectors))

    def start(self, source: State) -> State:
        return source

    def inputs(self, words: Tensor, source: State, rows: Tensor) -> Inputs:
        return Inputs(self.decoder.inputs(self.target(words % self.target.num_embeddings)))

    def carry(self, state: State) -> Carried:
        return self.decoder.carry(state)

    def step(self, carried: Carried, inputs: Inputs, source: State) -> State:
        return self.decoder.step(carried, inputs.unit)

    def factors(self, state: State, inputs: Inputs, source: State) -> Tensor:
        return state.hidden


def prepare(data: Data, config: LstmConfig, seed: int) -> Prepared:
    return prepare_recurrent(data, config, seed, LstmPairs)


def scorer(
    model: TrainedModel[LstmPairs], compute: Compute
) -> TrieScorer[State, State, Carried, Inputs]:
    network = model.network.to(compute.place)
    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return TrieScorer(network, layer, model.shortlists)


ARCHITECTURE = Architecture(
    data="phrase pairs",
    settings=LstmConfig,
    prepare=prepare,
    network=LstmPairs,
    scorer=scorer,
    generator=generator_with(scorer),
)
