"""Training of a deep LSTM encoder-decoder on parallel text."""

from __future__ import annotations

from dataclasses import dataclass, field

from rescorer.contract.data import Data
from rescorer.contract.training import Prepared
from rescorer.contract.vocabulary import Shortlists
from rescorer.training.recipes import RecipeName
from rescorer.tries.sentence_task import SentenceTrainingConfig, prepare_sentences
from rescorer.zoo.seq2seq.network import INITIAL_LIMIT, Seq2Seq, Seq2SeqConfig

# Of the paper the recipe "paper" has the initial weights alone: its optimiser was SGD.
INITIAL_LIMITS: dict[RecipeName, float | None] = {"adam": None, "paper": INITIAL_LIMIT}


@dataclass(frozen=True)
class Seq2SeqTrainingConfig(SentenceTrainingConfig):
    """Settings of the training of a deep LSTM encoder-decoder.

    Attributes:
        model: sizes.
    """

    model: Seq2SeqConfig = field(default_factory=Seq2SeqConfig)


def prepare(data: Data, config: Seq2SeqTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`."""
    return prepare_sentences(data, config, seed, lambda shortlists: new_network(config, shortlists))


def new_network(config: Seq2SeqTrainingConfig, shortlists: Shortlists) -> Seq2Seq:
    """A network with initial weights."""
    network = empty_network(config, shortlists)
    network.initialise(INITIAL_LIMITS[config.loop.recipe])
    if config.self_normalisation:
        network.start_normalised()
    return network


def empty_network(config: Seq2SeqTrainingConfig, shortlists: Shortlists) -> Seq2Seq:
    """A network whose weights are still to come."""
    source, target = shortlists
    return Seq2Seq(config.model, len(source or ()), len(target), config.dropout)
