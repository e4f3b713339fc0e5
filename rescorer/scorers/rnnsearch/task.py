"""Training of an RNNsearch on parallel text."""

from __future__ import annotations

from dataclasses import dataclass, field

from rescorer.contract.data import Data
from rescorer.contract.training import Prepared
from rescorer.contract.vocabulary import Shortlists
from rescorer.scorers.rnnsearch.network import INITIAL_DEVIATION, RnnSearch, RnnSearchConfig
from rescorer.training.recipes import RecipeName
from rescorer.tries.sentence_task import SentenceTrainingConfig, prepare_sentences

# The paper's small weights suit its Adadelta over days; scaling by the fan-in suits minutes of Adam.
INITIAL_DEVIATIONS: dict[RecipeName, float | None] = {"adam": None, "paper": INITIAL_DEVIATION}


@dataclass(frozen=True)
class RnnSearchTrainingConfig(SentenceTrainingConfig):
    """Settings of the training of an RNNsearch or RNNenc.

    Attributes:
        model: sizes.
    """

    model: RnnSearchConfig = field(default_factory=RnnSearchConfig)


def prepare(data: Data, config: RnnSearchTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`."""
    return prepare_sentences(data, config, seed, lambda shortlists: new_network(config, shortlists))


def new_network(config: RnnSearchTrainingConfig, shortlists: Shortlists) -> RnnSearch:
    """A network with initial weights."""
    network = empty_network(config, shortlists)
    network.initialise(INITIAL_DEVIATIONS[config.loop.recipe])
    if config.self_normalisation:
        network.start_normalised()
    return network


def empty_network(config: RnnSearchTrainingConfig, shortlists: Shortlists) -> RnnSearch:
    """A network whose weights are still to come."""
    source, target = shortlists
    return RnnSearch(config.model, len(source or ()), len(target), config.dropout)
