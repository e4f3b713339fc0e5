"""NNJM, the joint model of Devlin et al. (2014): a word from its history and the aligned source window.

A phrase pair of a table is scored as if it were a sentence, so a column is an approximation; a feature of
n-best lists is exact. Windows have previous target words, then source words around the affiliated one.

Affiliation (Devlin et al. 2014, section 2.1): a word with one link has that source word, a word with several
the middle one (of an even number the lower, as in Moses's BilingualLM). A word without links has the source
word of the nearest linked target word of its sentence, the right one of two equally near. In a sentence
without links a word has the source word at the same relative position. </s> has the place after the last
source word.

Ids of input words: the target shortlist, <s> of the target, the source shortlist, <s> of the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.textio import StrPath
from moses_bridge.formats.alignment import parse_links
from rescorer.contract.architectures import Architecture
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary, count_words
from rescorer.layers.output_layer import output_layer, start_normalised
from rescorer.training.seeded_batch import digest, held_out_mask
from rescorer.training.text import columns_of, read_parallel_text
from rescorer.windows.feed_forward import FeedForward, FirstLayerLookup, LayerWidths
from rescorer.windows.ngrams import places_of_runs, sentence_ngrams, starts_of_runs
from rescorer.windows.scoring import FilledWindows, WindowScorer
from rescorer.windows.service import WindowNgramScorer, window_ngram_scorer
from rescorer.windows.task import WindowTask, WindowTrainingConfig, mapped_rows

FAR = np.iinfo(np.int64).max // 4
# Places of words have nine digits at most: more would not fit the numbers of compiled code.
WELL_FORMED = re.compile(rb"\s*(\d{1,9}-\d{1,9}(\s+\d{1,9}-\d{1,9})*\s*)?")
OTHER_TEXT = "Are these the links of this text?"


class PairLinks(NamedTuple):
    """Pairs of word links, and their source and target words, from 0 in a sentence, *Shape:* (n_links,)."""

    pairs: NDArray[np.int64]
    sources: NDArray[np.int64]
    targets: NDArray[np.int64]


def affiliations(
    links: PairLinks, source_lens: NDArray[np.int64], target_lens: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The source word of each target word and of each </s>, from 0, *Shape:* (n_target_words + n_pairs,).

    `links` never leave their pairs; `source_lens` and `target_lens` count the words, *Shape:* (n_pairs,).
    """
    n_steps = target_lens + 1
    starts = np.cumsum(n_steps) - n_steps
    sentence = np.repeat(np.arange(len(n_steps)), n_steps)
    place = np.arange(len(sentence)) - starts[sentence]
    own = _middle_links(links, starts, len(sentence))
    found = own[_nearest_linked(own >= 0, sentence)]
    by_share = place * source_lens[sentence] // np.maximum(target_lens, 1)[sentence]
    result = np.where(found >= 0, found, by_share)
    return np.where(place == target_lens[sentence], source_lens[sentence], result)


def _middle_links(links: PairLinks, starts: NDArray[np.int64], n_steps: int) -> NDArray[np.int64]:
    """The middle one of each word's links, -1 if there is none, *Shape:* (n_steps,)."""
    steps = starts[links.pairs] + links.targets
    order = np.lexsort((links.sources, steps))
    counts = np.bincount(steps, minlength=n_steps)
    linked = np.flatnonzero(counts)
    firsts = (np.cumsum(counts) - counts)[linked]
    result = np.full(n_steps, -1)
    result[linked] = links.sources[order[firsts + (counts[linked] - 1) // 2]]
    return result


def _nearest_linked(is_linked: NDArray[np.bool_], sentence: NDArray[np.int64]) -> NDArray[np.int64]:
    """The nearest linked step of each step's sentence, itself if there is none, *Shape:* (n_steps,)."""
    steps = np.arange(len(is_linked))
    left = np.maximum.accumulate(np.where(is_linked, steps, -1))
    right = np.minimum.accumulate(np.where(is_linked, steps, len(steps))[::-1])[::-1]
    to_left = np.where((left >= 0) & (sentence[left] == sentence), steps - left, FAR)
    right_inside = np.minimum(right, len(steps) - 1)
    is_inside = (right < len(steps)) & (sentence[right_inside] == sentence)
    to_right = np.where(is_inside, right - steps, FAR)
    nearest = np.where(to_right <= to_left, right_inside, left)
    return np.where(np.minimum(to_left, to_right) < FAR, nearest, steps)


@dataclass(frozen=True)
class NnjmConfig:
    """Sizes of an NNJM; those of Devlin et al. (2014), section 2, in parentheses.

    Attributes:
        history_words: previous target words seen (3).
        source_words: source words seen, an odd number: those around the affiliated one (11).
        embedding_width: width of a word's vector (192).
        first_width: width of the first hidden layer (512).
        second_width: width of the second hidden layer (512); 0 leaves it out.
    """

    history_words: Annotated[int, AtLeast(1)] = 3
    source_words: Annotated[int, AtLeast(1)] = 11
    embedding_width: Annotated[int, AtLeast(1)] = 128
    first_width: Annotated[int, AtLeast(1)] = 384
    second_width: Annotated[int, AtLeast(0)] = 160

    def __post_init__(self) -> None:
        check_limits(self)
        if self.source_words % 2 == 0:
            raise ConfigError(
                f"source_words is {self.source_words}, expected an odd number: "
                "as many words before the affiliated one as behind it"
            )


class Nnjm(FeedForward):
    """p(word | previous target words, source words around the affiliated one).

    The hidden layers have ReLU, like every `FeedForward`; Devlin et al. (2014) use tanh.
    """

    def __init__(self, config: NnjmConfig, n_input_words: int, n_words: int) -> None:
        widths = LayerWidths(config.embedding_width, config.first_width, config.second_width)
        window_words = config.history_words + config.source_words
        super().__init__(n_input_words, window_words, widths, n_words)
        self.config = config


def n_input_words(shortlists: Shortlists) -> int:
    """Number of ids of input words."""
    source, target = shortlists
    return len(target) + 1 + len(source or ()) + 1


def fill_windows(batch: Batch, shortlists: Shortlists, config: NnjmConfig) -> FilledWindows:
    """The windows of all target words of pairs with word links, </s> included.

    Raises:
        UnscorablePair: a link is malformed or leaves its pair.
    """
    source, target = shortlists
    if source is None or batch.links is None:
        raise ValueError("an NNJM needs a source shortlist and word links")
    around, source_lens = place_windows(batch.sources, shortlists, config)
    target_ids, target_lens = target.encode_text(batch.targets)
    history, pairs = sentence_ngrams(
        target_ids, target_lens, config.history_words, len(target), target.end_id
    )
    try:
        links = read_links(batch.links)
    except InputError as error:
        row = (error.line or 1) - 1
        raise UnscorablePair(row, batch, None, error.found, error.expected, OTHER_TEXT) from error
    _check_inside(links, source_lens, target_lens, batch)
    places = starts_of_runs(source_lens + 1)[pairs] + affiliations(links, source_lens, target_lens)
    rows = np.concatenate([history[:, :-1], around[places], history[:, -1:]], axis=1)
    return FilledWindows(np.ascontiguousarray(rows, np.int32), pairs)


def place_windows(
    sources: Sequence[bytes], shortlists: Shortlists, config: NnjmConfig
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The words around each word of some sources and their ends, and the number of words in each source.

    The ids of input words have the *Shape:* (n_places, source_words).
    """
    source, target = shortlists
    assert source is not None
    ids, lens = source.encode_text(sources)
    windows = _source_windows(ids, lens, len(source), config.source_words)
    return windows + np.int32(len(target) + 1), lens


def _source_windows(
    ids: NDArray[np.int32], lens: NDArray[np.int64], start_id: int, width: int
) -> NDArray[np.int32]:
    """The words around each source word and each </s>, *Shape:* (n_words + n_sentences, width).

    <s> fills the places before the first word, </s> those after the last one.
    """
    reach = width // 2
    padded = lens + 2 * reach + 1
    firsts = starts_of_runs(padded)
    text = np.full(int(padded.sum()) + width, Vocabulary.end_id, np.int32)
    text[places_of_runs(firsts, np.full_like(lens, reach))] = start_id
    text[places_of_runs(firsts + reach, lens)] = ids
    windows = np.lib.stride_tricks.sliding_window_view(text, width)
    return windows[places_of_runs(firsts, lens + 1)]


def read_links(lines: Sequence[bytes]) -> PairLinks:
    """The word links of some pairs.

    Raises:
        InputError: a link is malformed; names the line among these.
    """
    for number, line in enumerate(lines, start=1):
        if not WELL_FORMED.fullmatch(line):
            parse_links(line, "links", number)
    counts = np.fromiter((line.count(b"-") for line in lines), np.int64, len(lines))
    numbers = b" ".join(lines).replace(b"-", b" ").split()
    flat = np.fromiter(map(int, numbers), np.int64, len(numbers)).reshape(-1, 2)
    return PairLinks(np.repeat(np.arange(len(lines)), counts), flat[:, 0], flat[:, 1])


def _check_inside(
    links: PairLinks, source_lens: NDArray[np.int64], target_lens: NDArray[np.int64], batch: Batch
) -> None:
    outside = (links.sources >= source_lens[links.pairs]) | (
        links.targets >= target_lens[links.pairs]
    )
    if not outside.any():
        return
    first = int(np.flatnonzero(outside)[0])
    pair = int(links.pairs[first])
    raise UnscorablePair(
        pair,
        batch,
        None,
        f"the link {links.sources[first]}-{links.targets[first]}",
        f"links within {source_lens[pair]} source and {target_lens[pair]} target words",
        OTHER_TEXT,
    )


@dataclass(frozen=True)
class NnjmTrainingConfig(WindowTrainingConfig):
    """Settings of the training of an NNJM; the shortlist is of each side.

    Attributes:
        model: sizes of window and network.
    """

    model: NnjmConfig = field(default_factory=NnjmConfig)


def prepare(data: Data, config: NnjmTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`; InputError if the texts and links do not fit together."""
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
