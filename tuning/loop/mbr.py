"""Minimum Bayes risk over an n-best list (Kumar & Byrne 2004): how much a hypothesis is like the others.

The value of a hypothesis is the mean quality, by sentence BLEU or chrF or a user's command, that it would
have if each other hypothesis of its sentence were the reference: the mean of a row of a matrix.
"bleu-aggregated" and "chrf-aggregated" take the quality against one reference, whose number of each n-gram is
the mean over the others (DeNero et al. 2009; Vamvas & Sennrich 2024), in time linear in the list. With these
means m(g) and c(g) of the hypothesis, an order has sum_g min(c(g), m(g)) matches, sum_g c(g) n-grams of the
hypothesis, and sum_g m(g) of the reference. As a feature of a list its weight is learned like any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.progress import track, unless_full
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import StrPath, open_write, write_lines
from moses_bridge.formats.nbest import read_nbest, with_feature
from tuning.metrics.bleu import BLEU
from tuning.metrics.bleu import MAX_ORDER as BLEU_ORDER
from tuning.metrics.by_name import MbrMetricName
from tuning.metrics.chrf import CHRF
from tuning.metrics.chrf import MAX_ORDER as CHRF_ORDER
from tuning.metrics.column_metric import NumberCommand, Question
from tuning.metrics.metric import unicode

FEATURE = "MBR0"
PAIRS_AT_ONCE = 500_000  # a list of 100 for 50 sentences; some 100 MB of text for a command
MATRICES = "the matrices that mbr_cache keeps, a .npz"
Matrix = NDArray[np.float64]


class Sentence(NamedTuple):
    """The number of a sentence, its source, and its hypotheses."""

    number: int
    source: bytes
    texts: Sequence[bytes]

    @property
    def distinct(self) -> list[bytes]:
        """The different hypotheses, in the order of the list."""
        return list(dict.fromkeys(self.texts))


Likeness = Callable[[Sequence[Sentence]], Iterator[Matrix]]
"""For each sentence, how much each hypothesis is like the others, *Shape:* (n_hypotheses,)."""
Matrices = Callable[[Sequence[Sentence]], list[Matrix]]


def add_mbr(nbest: StrPath, source: StrPath, likeness: Likeness, out: StrPath) -> None:
    """Write a list in Moses's format with the feature MBR0 after the others, compressed by suffix.

    The source has one translated sentence a line, with all that the list names; `likeness` gives the values.
    InputError if a line is malformed.
    """
    entries, sources = list(read_nbest(nbest)), list(read_text_lines(source))
    members: dict[int, list[int]] = {}
    for place, entry in enumerate(entries):
        members.setdefault(entry.sentence_id, []).append(place)
    sentences = [
        Sentence(number, sources[number], [entries[place].words for place in places])
        for number, places in members.items()
    ]
    values = np.zeros(len(entries))
    found_values = track(likeness(sentences), "MBR", len(members), "sentences")
    for places, of_sentence in zip(members.values(), found_values, strict=True):
        values[places] = of_sentence
    pairs = zip(entries, values.tolist(), strict=True)
    write_lines(out, [with_feature(entry.line, FEATURE, value) for entry, value in pairs])


def aggregated_values(texts: Sequence[bytes], metric: str) -> Matrix:
    """The quality of each hypothesis against the aggregated others, (n,); 0 for a single one."""
    if len(texts) == 1:
        return np.zeros(1)
    own, theirs, matches = [], [], []
    for counts in _ngram_counts(texts, metric):
        means = (counts.sum(axis=0) - counts) / (len(texts) - 1)
        own.append(counts.sum(axis=1))
        theirs.append(means.sum(axis=1))
        matches.append(np.minimum(counts, means).sum(axis=1))
    return _quality(metric, *(np.stack(each, axis=-1) for each in (own, theirs, matches)))


def matrices_by_metric(sentences: Sequence[Sentence], metric: str) -> list[Matrix]:
    """The quality (0 to 1) of the distinct hypotheses, rows, with each as the reference, a column."""
    return [_matrix(sentence.distinct, metric) for sentence in sentences]


def _matrix(texts: Sequence[bytes], metric: str) -> Matrix:
    totals, matches = [], []
    for counts in _ngram_counts(texts, metric):
        totals.append(counts.sum(axis=1))
        matches.append(np.empty((len(texts), len(texts)), np.int64))
        _common(counts, matches[-1])
    sizes = np.stack(totals, axis=-1)
    own, theirs = np.broadcast_arrays(sizes[:, None], sizes[None])
    return _quality(metric, own, theirs, np.stack(matches, axis=-1))


def _quality(metric: str, own: Matrix, theirs: Matrix, matches: Matrix) -> Matrix:
    """The quality by n-grams of the text, of its reference, and of both: (..., n_orders) -> (...)."""
    if metric == "chrf":
        return CHRF.quality(np.stack([own, theirs, matches], axis=-1).reshape(*own.shape[:-1], -1))
    rows = np.stack([matches, own], axis=-1).reshape(-1, 2 * BLEU_ORDER)
    return BLEU.quality(np.column_stack([rows, theirs[..., 0].ravel()])).reshape(own.shape[:-1])


def _ngram_counts(texts: Sequence[bytes], metric: str) -> Iterator[NDArray[np.int32]]:
    """For each order, how often each text has each n-gram, *Shape:* (n, n_ngrams)."""
    units: list[Sequence[object]] = [text.split() for text in texts]
    if metric == "chrf":
        units = ["".join(unicode(text).split()) for text in texts]
    for order in range(1, (CHRF_ORDER if metric == "chrf" else BLEU_ORDER) + 1):
        numbers: dict[object, int] = {}
        rows = [
            [
                numbers.setdefault(tuple(text[place : place + order]), len(numbers))
                for place in range(len(text) - order + 1)
            ]
            for text in units
        ]
        arrays = (np.array(row, np.int64) for row in rows)
        counts = [np.bincount(row, minlength=len(numbers)) for row in arrays]
        yield np.array(counts, np.int32)


@njit(nogil=True)
def _common(counts, matches):  # type: ignore[no-untyped-def]
    """Fill the sums of the smaller counts of each pair of rows, *Shapes:* (n, n_ngrams), (n, n)."""
    for one in range(len(counts)):
        for other in range(one + 1):
            total = 0
            for column in range(counts.shape[1]):
                total += min(counts[one, column], counts[other, column])
            matches[one, other] = total
            matches[other, one] = total


def matrices_by_command(sentences: Sequence[Sentence], command: NumberCommand) -> list[Matrix]:
    """The command's numbers of the distinct hypotheses, rows, with each as the reference, a column."""
    questions = [
        Question(sentence.source, other, own)
        for sentence in sentences
        for own in sentence.distinct
        for other in sentence.distinct
    ]
    sizes = [len(sentence.distinct) for sentence in sentences]
    parts = np.split(np.array(command.ask(questions)), np.cumsum(np.square(sizes))[:-1])
    return [part.reshape(size, size) for part, size in zip(parts, sizes, strict=True)]


def _means(sentence: Sentence, matrix: Matrix) -> Matrix:
    """The mean number of each hypothesis, *Shape:* (n,), against the others; 0 for a single one."""
    if len(sentence.texts) == 1:
        return np.zeros(1)
    places = {text: place for place, text in enumerate(sentence.distinct)}
    of_texts = np.array([places[text] for text in sentence.texts])
    counts = np.bincount(of_texts, minlength=len(places))
    means = (matrix @ counts - np.diagonal(matrix)) / (len(sentence.texts) - 1)
    return np.asarray(means[of_texts])


@dataclass(frozen=True)
class MbrChoice:
    """The source of the feature MBR0.

    Attributes:
        name: metric of the likeness.
        command: command of "column"; see `tuning.metrics.column_metric.NumberCommand`. {reference} is the other
            hypothesis.
        cache: file that keeps the matrices; "" keeps none.

    Raises:
        ConfigError: "column" has no command, another metric has one, or the matrices of none are kept.
    """

    name: MbrMetricName | None = None
    command: str = ""
    cache: str = ""

    def __post_init__(self) -> None:
        if self.name == "column" and not self.command:
            raise ConfigError('mbr = "column" needs a command: set mbr_command')
        if self.name != "column" and self.command:
            raise ConfigError('a command belongs to mbr = "column"; leave mbr_command out')
        if self.cache and self.name not in ("bleu", "chrf", "column"):
            raise ConfigError(f"mbr = {self.name!r} has no matrices; leave mbr_cache out")

    def likeness(self) -> Likeness | None:
        """The likeness that gives the values; None for no feature.

        Raises:
            ConfigError: the command is malformed.
            InputError: the cache is malformed.
        """
        if self.name is None:
            return None
        metric = self.name.removesuffix("-aggregated")
        if metric != self.name:
            return lambda sentences: (aggregated_values(each.texts, metric) for each in sentences)
        matrices = partial(matrices_by_metric, metric=metric)
        if metric == "column":
            command = NumberCommand(self.command, "the command of MBR0", ("reference",))
            matrices = partial(matrices_by_command, command=command)
        return partial(self._by_matrices, matrices, _kept_matrices(self.cache))

    def _by_matrices(
        self, matrices: Matrices, kept: dict[str, Matrix], sentences: Sequence[Sentence]
    ) -> Iterator[Matrix]:
        most = max(len(sentence.distinct) for sentence in sentences)
        n_written, blocks = len(kept), [*blocks_of(sentences, max(1, PAIRS_AT_ONCE // most**2))]
        for block in blocks:
            new = {key: each for each in block if (key := self._key(each)) not in kept}
            found = kept | dict(zip(new, matrices([*new.values()]) if new else [], strict=True))
            if self.cache:
                kept.update(found)
                # All are written each time, so only once there are twice as many.
                if len(kept) > (n_written if block is blocks[-1] else 2 * n_written):
                    n_written = len(kept)
                    with (
                        unless_full(self.cache, "the matrices are not kept"),
                        open_write(self.cache) as file,
                    ):
                        np.savez(file, **kept)  # type: ignore[arg-type]
            yield from (_means(each, found[self._key(each)]) for each in block)

    def _key(self, sentence: Sentence) -> str:
        parts = [f"{self.name} {self.command}".encode(), sentence.source, *sentence.distinct]
        digest = hashlib.sha256(b"\n".join(parts)).hexdigest()
        return f"{sentence.number}-{digest[:16]}"


def _kept_matrices(path: str) -> dict[str, Matrix]:
    if not (path and Path(path).exists()):
        return {}
    try:
        with np.load(path) as file:
            return dict(file)
    except (OSError, ValueError, TypeError, AttributeError, BadZipFile, EOFError) as error:
        raise InputError(path, None, str(error), MATRICES, "Name another file") from error
