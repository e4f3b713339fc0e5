"""Training of a CSTM on the pairs of a phrase table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from moses_bridge.base.errors import ConfigError
from rescorer.contract.data import Data
from rescorer.contract.training import Prepared
from rescorer.contract.vocabulary import Shortlists
from rescorer.training.recipes import RecipeName
from rescorer.tries.pair_losses import PairWords
from rescorer.tries.pair_task import Batching, PairTrainingConfig
from rescorer.tries.pooled_pair_task import PairModel, prepare_pairs
from rescorer.zoo.cstm.loss import CstmLosses
from rescorer.zoo.cstm.network import INITIAL_LIMIT, Cstm, CstmConfig

# Of the authors' program the recipe "paper" has the initial weights alone: its optimiser was SGD.
INITIAL_LIMITS: dict[RecipeName, float | None] = {"adam": None, "paper": INITIAL_LIMIT}


@dataclass(frozen=True)
class CstmTrainingConfig(PairTrainingConfig):
    """Settings of the training of a CSTM.

    Attributes:
        batching: "sources" puts all targets of a source into one batch: their denominators are computed once;
            "parts" puts four of them at a time, "pairs" draws pairs at random, "auto" is what the recipe
            says.
        model: sizes.
    """

    batching: Batching | Literal["auto"] = "sources"
    model: CstmConfig = field(default_factory=CstmConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_phrase_words > self.model.phrase_words:
            raise ConfigError(
                f"max_phrase_words is {self.max_phrase_words}, but the network has places for"
                f" {self.model.phrase_words} words: raise phrase_words in [model], or lower max_phrase_words"
            )


def prepare(data: Data, config: CstmTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`."""

    def new_model(words: PairWords) -> PairModel:
        network = new_network(config, words.shortlists)
        return PairModel(network, CstmLosses(network, config.loop.product_dtype))

    return prepare_pairs(data, config, seed, new_model)


def new_network(config: CstmTrainingConfig, shortlists: Shortlists) -> Cstm:
    """A network with initial weights."""
    network = empty_network(config, shortlists)
    network.initialise(INITIAL_LIMITS[config.loop.recipe])
    return network


def empty_network(config: CstmTrainingConfig, shortlists: Shortlists) -> Cstm:
    """A network whose weights are still to come."""
    source, target = shortlists
    return Cstm(config.model, len(source or ()), len(target))
