"""Training of an NNJM on parallel text with word links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.textio import StrPath
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.data import Data
from rescorer.contract.training import Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary, count_words
from rescorer.scorers.nnjm.network import Nnjm, NnjmConfig
from rescorer.scorers.nnjm.windows import fill_windows, n_input_words
from rescorer.training.held_out import digest, held_out_mask
from rescorer.training.text import columns_of, read_parallel_text
from rescorer.windows.mapped_rows import mapped_rows
from rescorer.windows.scoring import FilledWindows
from rescorer.windows.task import WindowTask, WindowTrainingConfig


@dataclass(frozen=True)
class NnjmTrainingConfig(WindowTrainingConfig):
    """Settings of the training of an NNJM; the shortlist is of each side.

    Attributes:
        model: sizes of window and network.
    """

    model: NnjmConfig = field(default_factory=NnjmConfig)


def prepare(data: Data, config: NnjmTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`.

    Raises:
        InputError: the texts and links do not fit together.
    """
    text = read_parallel_text(data)
    sides = (text.sources, text.targets)
    shortlists = data.shortlists or Shortlists(
        *(Vocabulary.from_counts(count_words(side), config.shortlist) for side in sides)
    )
    network = empty_network(config, shortlists)
    if config.self_normalisation:
        network.start_normalised()
    held_out = held_out_mask(len(text.targets), config.n_held_out, seed)
    lines = zip(text.sources, text.targets, text.links or (), strict=True)
    rows = mapped_rows(_filled(lines, shortlists, config.model, data.links or "links"), held_out)
    task = WindowTask(network, rows, config, seed)
    finish = task.finish if config.self_normalisation else None
    record = {"n_sentences": len(text.targets)}
    return Prepared(network, task, shortlists, digest(text.content()), record, finish)


def _filled(
    lines: Iterable[tuple[bytes, ...]], shortlists: Shortlists, config: NnjmConfig, path: StrPath
) -> Iterator[FilledWindows]:
    """The windows of sentence pairs with their links, some at a time.

    Raises:
        InputError: a link is malformed or leaves its pair; it names the line of the links.
    """
    n_lines = 0
    for columns in columns_of(lines):
        pairs = Batch(*columns)
        try:
            yield fill_windows(pairs, shortlists, config)
        except UnscorablePair as error:
            words = b" ||| ".join([pairs.sources[error.row], pairs.targets[error.row]])
            found = f"{error.found} of the pair {shown(words)}"
            line = n_lines + error.row + 1
            raise InputError(path, line, found, error.expected, error.hint) from error
        n_lines += len(pairs)


def empty_network(config: NnjmTrainingConfig, shortlists: Shortlists) -> Nnjm:
    """A network with initial weights."""
    return Nnjm(config.model, n_input_words(shortlists), len(shortlists.target))
