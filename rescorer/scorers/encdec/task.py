"""Training of the RNN Encoder-Decoder on the pairs of a phrase table."""

from __future__ import annotations

from dataclasses import dataclass, field

from rescorer.contract.data import Data
from rescorer.contract.training import Prepared
from rescorer.contract.vocabulary import Shortlists
from rescorer.scorers.encdec.network import INITIAL_DEVIATION, EncDecConfig, EncoderDecoder
from rescorer.training.recipes import RecipeName
from rescorer.tries.pair_losses import RecurrentTrainingConfig
from rescorer.tries.pooled_pair_task import prepare_recurrent

# The paper's small weights suit its Adadelta over days; scaling by the fan-in suits minutes of Adam.
INITIAL_DEVIATIONS: dict[RecipeName, float | None] = {"adam": None, "paper": INITIAL_DEVIATION}


@dataclass(frozen=True)
class EncDecTrainingConfig(RecurrentTrainingConfig):
    """Settings of the training of an encoder-decoder.

    Attributes:
        model: sizes.
    """

    model: EncDecConfig = field(default_factory=EncDecConfig)


def prepare(data: Data, config: EncDecTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`."""
    return prepare_recurrent(data, config, seed, lambda shortlists: new_network(config, shortlists))


def new_network(config: EncDecTrainingConfig, shortlists: Shortlists) -> EncoderDecoder:
    """A network with initial weights."""
    network = empty_network(config, shortlists)
    network.initialise(INITIAL_DEVIATIONS[config.loop.recipe])
    if config.self_normalisation:
        network.start_normalised()
    return network


def empty_network(config: EncDecTrainingConfig, shortlists: Shortlists) -> EncoderDecoder:
    """A network whose weights are still to come."""
    source, target = shortlists
    n_source_words = 0 if source is None else len(source)
    return EncoderDecoder(config.model, n_source_words, len(target))
