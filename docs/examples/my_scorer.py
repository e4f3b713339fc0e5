"""A whole scorer of phrase pairs: the mean of the source's word vectors, and an Elman network for the target.

PYTHONPATH=. rescorer train phrase-table.gz --arch my_scorer: --out bag
PYTHONPATH=. rescorer score phrase-table.gz --model bag --trust-code --out scored.gz
"""

from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.base.config import AtLeast
from rescorer.contract.architectures import Architecture
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists
from rescorer.layers.output_layer import output_layer
from rescorer.tries.phrase_pairs import prepare_recurrent
from rescorer.tries.recurrent import to_device
from rescorer.tries.scoring import TrieScorer, generator_with
from rescorer.tries.settings import RecurrentTrainingConfig


class Vectors(NamedTuple):
    """One row for each source, state or step. An LSTM's state would have two such fields."""

    rows: Tensor


@dataclass(frozen=True)
class Sizes:
    """Sizes of the network.

    Attributes:
        width: of its vectors.
    """

    width: Annotated[int, AtLeast(1)] = 100


@dataclass(frozen=True)
class BagConfig(RecurrentTrainingConfig):
    """Settings of a training; those that it shares with other recurrent networks are inherited.

    Attributes:
        model: sizes of the network.
    """

    model: Sizes = field(default_factory=Sizes)


class Bag(nn.Module):
    """The network; `read` to `factors` is what training, scoring and generation ask of it."""

    def __init__(self, config: BagConfig, shortlists: Shortlists) -> None:
        super().__init__()
        n_source, n_target = len(shortlists.source_words), len(shortlists.target)
        width = config.model.width
        self.source = nn.Embedding(n_source, width)
        self.target = nn.Embedding(n_target + 1, width)  # the last row is for NO_WORD, -1
        self.recurrent = nn.Linear(width, width)
        self.output = nn.Linear(width, n_target)

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> Vectors:
        """Each source, read once: word ids, padded to (n, longest + 1), and numbers of words, (n,)."""
        n_words = to_device(lens, self.output.weight).clamp(min=1)[:, None]
        is_word = torch.arange(ids.shape[1], device=n_words.device) < n_words
        vectors = self.source(to_device(ids, self.output.weight)) * is_word[:, :, None]
        return Vectors(vectors.sum(dim=1) / n_words)

    def start(self, source: Vectors) -> Vectors:
        """The state before the first target word of each source."""
        return Vectors(torch.tanh(source.rows))

    def inputs(self, words: Tensor, source: Vectors, rows: Tensor) -> Vectors:
        """What steps take from their previous words and their sources, all steps at once."""
        of_words = self.target(words % self.target.num_embeddings)
        return Vectors(of_words + source.rows.index_select(0, rows))

    def carry(self, state: Vectors) -> Vectors:
        """The part of a step that depends on the state alone: computed once for all words that follow."""
        return Vectors(self.recurrent(state.rows))

    def step(self, carried: Vectors, inputs: Vectors, source: Vectors) -> Vectors:
        """The next states."""
        return Vectors(torch.tanh(carried.rows + inputs.rows))

    def factors(self, state: Vectors, inputs: Vectors, source: Vectors) -> Tensor:
        """What the output layer multiplies to predict the next word."""
        return state.rows


def prepare(data: Data, config: BagConfig, seed: int) -> Prepared:
    """Read the table and make the network with its first weights."""
    return prepare_recurrent(data, config, seed, Bag)


def scorer(
    model: TrainedModel[Bag], compute: Compute
) -> TrieScorer[Vectors, Vectors, Vectors, Vectors]:
    """The network made ready for scoring, on the device and in the precision asked for."""
    network = model.network.to(compute.place)
    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return TrieScorer(network, layer, model.shortlists)


ARCHITECTURE = Architecture(
    data="phrase pairs",
    settings=BagConfig,
    prepare=prepare,
    network=Bag,
    scorer=scorer,
    generator=generator_with(scorer),
)
