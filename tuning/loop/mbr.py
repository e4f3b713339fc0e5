"""Minimum Bayes risk over an n-best list (Kumar & Byrne 2004): how much a hypothesis is like the others.

The value of a hypothesis is the mean quality, by sentence BLEU or chrF or a user's command, that it would
have if each other hypothesis of its sentence were the reference. As a feature of a list its weight is learned
like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.progress import track
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import StrPath, read_lines, write_lines
from moses_bridge.formats.nbest import parse_entry, with_feature
from tuning.metrics.bleu import BLEU
from tuning.metrics.bleu import MAX_ORDER as BLEU_ORDER
from tuning.metrics.by_name import MbrMetricName
from tuning.metrics.chrf import CHRF
from tuning.metrics.chrf import MAX_ORDER as CHRF_ORDER
from tuning.metrics.column_metric import Question
from tuning.metrics.metric import unicode

FEATURE = "MBR0"

Likeness = Callable[[Sequence[tuple[bytes, Sequence[bytes]]]], Iterator[NDArray[np.float64]]]
"""For sentences, each a source with its hypotheses, how much each hypothesis is like the others."""


def add_mbr(nbest: StrPath, source: StrPath, likeness: Likeness, out: StrPath) -> None:
    """Write a list in Moses's format with the feature MBR0 after the others, compressed by suffix.

    The source has one translated sentence a line; `likeness` gives the values.

    Raises:
        InputError: a line is malformed, or names a sentence that the source does not have.
    """
    lines, sources = list(read_lines(nbest)), list(read_text_lines(source))
    members: dict[int, list[int]] = {}
    texts = []
    for place, line in enumerate(lines):
        entry = parse_entry(line, nbest, place + 1)
        if entry.sentence_id >= len(sources):
            found = f"the sentence {entry.sentence_id}"
            raise InputError(nbest, place + 1, found, f"0 to {len(sources) - 1}, as in {source}")
        members.setdefault(entry.sentence_id, []).append(place)
        texts.append(entry.words)
    sentences = [
        (sources[number], [texts[place] for place in places]) for number, places in members.items()
    ]
    values = np.zeros(len(lines))
    found_values = track(likeness(sentences), "MBR", len(members), "sentences")
    for places, of_sentence in zip(members.values(), found_values, strict=True):
        values[places] = of_sentence
    pairs = zip(lines, values.tolist(), strict=True)
    write_lines(out, [with_feature(line, FEATURE, value) for line, value in pairs])


def likeness_by_metric(metric: Literal["bleu", "chrf"]) -> Likeness:
    """The likeness by sentence BLEU or chrF, 0 to 1."""
    return lambda sentences: (mbr_values(texts, metric) for _, texts in sentences)


def mbr_values(texts: Sequence[bytes], metric: Literal["bleu", "chrf"]) -> NDArray[np.float64]:
    """The mean quality (0 to 1) of each of a sentence's hypotheses against the others; 0 for a single one."""
    n = len(texts)
    if metric == "bleu":
        units: list[Sequence[object]] = [text.split() for text in texts]
        matches, totals = _matches(units, BLEU_ORDER)
        own = np.repeat(totals[:, None], n, axis=1)
        pairs = np.stack([matches, own], axis=-1).reshape(n, n, -1)
        lengths = np.broadcast_to(totals[None, :, :1], (n, n, 1))
        statistics = np.concatenate([pairs, lengths], axis=-1)
        quality = BLEU.quality(statistics.reshape(n * n, -1))
    else:
        units = ["".join(unicode(text).split()) for text in texts]
        matches, totals = _matches(units, CHRF_ORDER)
        theirs = np.repeat(totals[None], n, axis=0)
        own = np.where(theirs > 0, totals[:, None], 0)
        statistics = np.stack([own, theirs, matches], axis=-1)
        quality = CHRF.quality(statistics.reshape(n * n, -1))
    table = quality.reshape(n, n)
    return np.asarray((table.sum(axis=1) - np.diagonal(table)) / max(1, n - 1))


def _matches(
    texts: Sequence[Sequence[object]], max_order: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Matched n-grams of each pair of texts, and the n-grams of each text, by order.

    *Shapes:* (n, n, max_order) and (n, max_order).
    """
    totals = np.array([[max(0, len(text) - k) for k in range(max_order)] for text in texts])
    matches = np.zeros((len(texts), len(texts), max_order), np.int64)
    for order in range(1, max_order + 1):
        numbers: dict[object, int] = {}
        rows = [
            [
                numbers.setdefault(tuple(text[place : place + order]), len(numbers))
                for place in range(len(text) - order + 1)
            ]
            for text in texts
        ]
        arrays = (np.array(row, np.int64) for row in rows)
        counts = np.array([np.bincount(row, minlength=len(numbers)) for row in arrays])
        _common(counts.astype(np.int32), matches[:, :, order - 1])
    return matches, totals


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


PAIRS_A_CALL = 500_000  # a list of 100 for 50 sentences; some 100 MB of text

Scorer = Callable[[Sequence[Question]], list[float]]
Sentence = tuple[bytes, Sequence[bytes]]  # a source and its hypotheses


def likeness_by_command(score: Scorer) -> Likeness:
    """The likeness by a command, which scores all pairs of different hypotheses of a sentence.

    `score` gives the number of each question; see `NumberCommand`.
    """

    def likeness(sentences: Sequence[Sentence]) -> Iterator[NDArray[np.float64]]:
        for block in _blocks(sentences):
            yield from _values(block, score)

    return likeness


def _blocks(sentences: Sequence[Sentence]) -> Iterator[list[Sentence]]:
    """Sentences for one call each: about `PAIRS_A_CALL` pairs, one sentence at least."""
    block: list[Sentence] = []
    n_pairs = 0
    for sentence in sentences:
        block.append(sentence)
        n_pairs += len(set(sentence[1])) ** 2
        if n_pairs >= PAIRS_A_CALL:
            yield block
            block, n_pairs = [], 0
    if block:
        yield block


def _values(sentences: Sequence[Sentence], score: Scorer) -> Iterator[NDArray[np.float64]]:
    distinct = [list(dict.fromkeys(texts)) for _, texts in sentences]
    questions = [
        Question(source, (other,), own)
        for (source, _), texts in zip(sentences, distinct, strict=True)
        for own in texts
        for other in texts
    ]
    sizes = [len(texts) for texts in distinct]
    parts = np.split(np.array(score(questions)), np.cumsum(np.square(sizes))[:-1])
    for (_, texts), part, names in zip(sentences, parts, distinct, strict=True):
        yield _means(texts, names, part.reshape(len(names), len(names)))


def _means(
    texts: Sequence[bytes], names: Sequence[bytes], table: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The mean number of each hypothesis, *Shape:* (n,), against the others; 0 for a single one.

    The table has the number of each distinct one of `names` against each, *Shape:* (d, d).
    """
    if len(texts) == 1:
        return np.zeros(1)
    places = {name: place for place, name in enumerate(names)}
    of_texts = np.array([places[text] for text in texts])
    counts = np.bincount(of_texts, minlength=len(names))
    means = (table @ counts - np.diagonal(table)) / (len(texts) - 1)
    return np.asarray(means[of_texts])


@dataclass(frozen=True)
class MbrChoice:
    """The source of the feature MBR0.

    Attributes:
        name: metric of the likeness.
        command: command of "column"; see `tuning.metrics.column_metric.NumberCommand`. {reference} is the other
            hypothesis.
        cache: file that keeps its numbers; "" keeps none.

    Raises:
        ConfigError: "column" has no command, or another metric has one.
    """

    name: MbrMetricName | None = None
    command: str = ""
    cache: str = ""

    def __post_init__(self) -> None:
        if self.name == "column" and not self.command:
            raise ConfigError('mbr = "column" needs a command: set mbr_command')
        if self.name != "column" and (self.command or self.cache):
            raise ConfigError('a command belongs to mbr = "column"; leave mbr_command out')

    def likeness(self) -> Likeness | None:
        """The likeness that gives the values; None for no feature.

        Raises:
            ConfigError: the command is malformed.
            InputError: the cache is malformed.
        """
        if self.name is None:
            return None
        if self.name != "column":
            return likeness_by_metric(self.name)
        from tuning.metrics.column_metric import NumberCommand

        cache = Path(self.cache) if self.cache else None
        command = NumberCommand(self.command, "the command of MBR0", ("reference",), cache)
        return likeness_by_command(command.ask if cache is None else command.numbers)
