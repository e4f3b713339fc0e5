"""Training of a CSLM on target text."""

from __future__ import annotations

from dataclasses import dataclass, field

from moses_bridge.base.blocks import blocks_of
from rescorer.contract.data import Data
from rescorer.contract.training import Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary, count_words
from rescorer.scorers.cslm.network import Cslm, CslmConfig
from rescorer.training.held_out import digest, held_out_mask
from rescorer.training.text import SENTENCES_AT_ONCE, read_text
from rescorer.windows.mapped_rows import mapped_rows
from rescorer.windows.ngrams import sentence_ngrams
from rescorer.windows.task import WindowTask, WindowTrainingConfig


@dataclass(frozen=True)
class CslmTrainingConfig(WindowTrainingConfig):
    """Settings of the training of a CSLM.

    Attributes:
        model: sizes.
    """

    model: CslmConfig = field(default_factory=CslmConfig)


def prepare(data: Data, config: CslmTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`.

    Raises:
        InputError: the text is empty.
    """
    sentences = read_text(data.path)
    vocabulary = Vocabulary.from_counts(count_words(sentences), config.shortlist)
    shortlists = Shortlists(None, vocabulary)
    network = empty_network(config, shortlists)
    if config.self_normalisation:
        network.start_normalised()
    held_out = held_out_mask(len(sentences), config.n_held_out, seed)
    width, start_id = config.model.context_words, network.start_id
    rows = mapped_rows(
        (
            sentence_ngrams(*vocabulary.encode_text(block), width, start_id, vocabulary.end_id)
            for block in blocks_of(sentences, SENTENCES_AT_ONCE)
        ),
        held_out,
    )
    task = WindowTask(network, rows, config, seed)
    finish = task.finish if config.self_normalisation else None
    return Prepared(network, task, shortlists, digest(sentences), finish=finish)


def empty_network(config: CslmTrainingConfig, shortlists: Shortlists) -> Cslm:
    """A network with initial weights."""
    return Cslm(config.model, len(shortlists.target))
