"""NNJM, the joint model of Devlin et al. (2014): a word from its history and the aligned source window.

A phrase pair of a table is scored as if it were a sentence, so a column is an approximation; a feature of
n-best lists is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.textio import StrPath
from rescorer.contract.architectures import Architecture
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary, count_words
from rescorer.layers.output_layer import output_layer, start_normalised
from rescorer.scorers.nnjm.network import (
    Nnjm,
    NnjmConfig,
    fill_windows,
    n_input_words,
    place_windows,
)
from rescorer.training.seeded_batch import digest, held_out_mask
from rescorer.training.text import columns_of, read_parallel_text
from rescorer.windows.feed_forward import FirstLayerLookup
from rescorer.windows.scoring import FilledWindows, WindowScorer
from rescorer.windows.service import WindowNgramScorer, window_ngram_scorer
from rescorer.windows.task import WindowTask, WindowTrainingConfig, mapped_rows


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
        start_normalised(network.output)
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
        InputError: a link is malformed or leaves its pair; names its line.
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


def nnjm_scorer(model: TrainedModel[Nnjm], compute: Compute) -> WindowScorer:
    """Natural log p(target | source, links) under an NNJM."""
    network, shortlists = model.network.to(compute.place), model.shortlists

    def fill(batch: Batch) -> FilledWindows:
        return fill_windows(batch, shortlists, network.config)

    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return WindowScorer(FirstLayerLookup(network), layer, shortlists.target, fill, needs_links=True)


def nnjm_ngram_scorer(model: TrainedModel[Nnjm], compute: Compute) -> WindowNgramScorer:
    """The n-gram scorer of an NNJM for use during search."""
    config = model.network.config

    def around(sources: Sequence[bytes]) -> NDArray[np.int32]:
        return place_windows(sources, model.shortlists, config)[0]

    return window_ngram_scorer(model, compute, config.history_words, around)


def nnjm_embeddings(model: TrainedModel[Nnjm]) -> dict[Side, NDArray[np.float32]]:
    """The vectors of both sides' words in a window, *Shape:* (n_words, r) each."""
    source, target = model.shortlists
    vectors = model.network.embedding.weight.detach().cpu().numpy()
    first_source = len(target) + 1
    return {
        "target": vectors[: len(target)],
        "source": vectors[first_source : first_source + len(source or ())],
    }


ARCHITECTURE = Architecture(
    data="linked text",
    settings=NnjmTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=nnjm_scorer,
    ngrams=nnjm_ngram_scorer,
    embeddings=nnjm_embeddings,
)
