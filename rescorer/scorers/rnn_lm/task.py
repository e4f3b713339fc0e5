"""Training of an RNN language model on target text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from moses_bridge.base.errors import InputError
from rescorer.contract.data import Data, goes_right_to_left
from rescorer.contract.training import Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary, count_words
from rescorer.scorers.rnn_lm.network import RnnLm, RnnLmConfig
from rescorer.training.held_out import digest, held_out_mask
from rescorer.training.mapped_text import mapped_text
from rescorer.training.text import read_text, turned_lines
from rescorer.tries.text_task import EncodedText, TextTask, TextTrainingConfig


@dataclass(frozen=True)
class RnnLmTrainingConfig(TextTrainingConfig):
    """Settings of the training of an RNN language model.

    Attributes:
        model: sizes.
    """

    model: RnnLmConfig = field(default_factory=RnnLmConfig)


def prepare(data: Data, config: RnnLmTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`.

    Raises:
        InputError: the text is empty, or all its sentences are too long.
    """
    lines = read_text(data.path)

    def sentences() -> Iterable[bytes]:
        return turned_lines(lines) if goes_right_to_left(config.reading) else lines

    vocabulary = Vocabulary.from_counts(count_words(sentences()), config.shortlist)
    shortlists = Shortlists(None, vocabulary)
    network = empty_network(config, shortlists)
    if config.self_normalisation:
        network.start_normalised()
    held_out = held_out_mask(len(lines), config.n_held_out, seed)
    text = EncodedText(*mapped_text(vocabulary, sentences()))
    task = TextTask(network, text, held_out, config, seed)
    if not len(task.train_rows):
        raise InputError(
            data.path,
            None,
            "no sentence that is short enough",
            f"sentences of at most {config.max_sentence_words} words",
            "Raise max_sentence_words in --config",
        )
    return Prepared(network, task, shortlists, digest(sentences()))


def empty_network(config: RnnLmTrainingConfig, shortlists: Shortlists) -> RnnLm:
    """A network with initial weights."""
    return RnnLm(config.model, len(shortlists.target))
