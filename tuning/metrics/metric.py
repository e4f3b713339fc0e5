"""Tuning metrics: statistics of a hypothesis, their sums, and one number of the sums.

Optimisers see metrics only through `Metric`. A line search changes the sums at each corner; `along` gives the
number in each interval between corners (Och 2003, section 5).
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import StrPath, count_lines
from moses_bridge.formats.nbest import refuse_marks

FEW, SHORT = 50, 500  # hypotheses, bytes; TER takes 6 ms for one, and numba half a second to load
Counts = NDArray[np.integer[Any]] | NDArray[np.float64]
Values = NDArray[np.float64]
Rows = NDArray[np.int32]


@dataclass(frozen=True)
class Metric:
    """A metric whose statistics add up over sentences.

    Attributes:
        name: name in settings.
        label: name for people.
        sign: 1 where more is better, -1 where less is.
    """

    name: str
    label: str
    sign: int

    @abstractmethod
    def value(self, sums: Counts) -> Values:
        """The metric of summed statistics, *Shape:* (..., n_statistics) -> (...)."""

    @abstractmethod
    def quality(self, statistics: Counts) -> Values:
        """How good each hypothesis is alone, 0 to about 1, more is better: *Shape:* (n,)."""

    @abstractmethod
    def gains(self, statistics: Counts) -> Values | None:
        """The contribution of each hypothesis in words of the reference, more is better: *Shape:* (n,).

        None for BLEU, for which the optimisers use sums.
        """

    def level(self, value: float) -> float:
        """A value on the scale of `along`."""
        return self.sign * value

    def along(self, statistics: Counts, firsts: Rows, losers: Rows, winners: Rows) -> Values:
        """How good the metric is in each interval of a line; more is better, on any rising scale.

        The sums of all intervals are in memory at a time.

        Args:
            statistics: of the hypotheses, *Shape:* (n, n_statistics).
            firsts: the hypothesis of each sentence in the first interval, *Shape:* (n_sentences,).
            losers: the one that wins before each corner, the corners in their order, *Shape:* (n_corners,).
            winners: the one that wins after it, *Shape:* (n_corners,).

        Returns:
            *Shape:* (n_corners + 1,).
        """
        sums = statistics[firsts].sum(axis=0, keepdims=True)
        steps = np.cumsum(statistics[winners] - statistics[losers], axis=0)
        return self.sign * self.value(np.concatenate([sums, sums + steps]))

    def oracle_order(self, statistics: Counts) -> Values:
        """Like `quality`, on any rising scale, for the choice of the best hypotheses: *Shape:* (n,)."""
        return self.quality(statistics)


class MetricReferences:
    """The references of each sentence of a text, against which hypotheses are counted."""

    metric: Metric

    def __init__(self, sentences: Sequence[Sequence[bytes]]) -> None:
        self.sentences = sentences

    def __len__(self) -> int:
        return len(self.sentences)

    @abstractmethod
    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> Any:
        """Statistics of hypotheses, each with the number of its sentence: *Shape:* (n, n_statistics)."""

    def output_statistics(self, path: StrPath) -> Any:
        """Statistics of a file of translations, *Shape:* (n_sentences, n_statistics).

        Raises:
            InputError: the file has another number of lines than the references, or marks of a segmentation
                among its words.
        """
        lines = list(read_text_lines(path))
        if len(lines) != len(self):
            raise InputError(path, None, f"{len(lines)} lines", f"{len(self)}, as the reference")
        for line_number, words in enumerate(lines, start=1):
            refuse_marks(words, path, line_number)
        return self.statistics(enumerate(lines))


def read_references(
    paths: Sequence[StrPath], source: StrPath | None = None
) -> list[tuple[bytes, ...]]:
    """The references of each sentence, from one file a reference, one sentence a line.

    An empty line in one of several files is no reference, as None is none in sacreBLEU; a sentence without any
    keeps an empty one.

    Args:
        paths: the files.
        source: the translated text, if known.

    Raises:
        InputError: a file has no lines, or another number of them than the source or the first file.
    """
    model = paths[0] if source is None else source
    n_lines = count_lines(model)
    if not n_lines:
        raise InputError(model, None, "no lines", "a line for each sentence")
    texts = [list(read_text_lines(path)) for path in paths]
    for path, lines in zip(paths, texts, strict=True):
        if len(lines) != n_lines:
            found, expected = f"{len(lines)} lines", f"{n_lines}, as {os.fspath(model)} has"
            raise InputError(path, None, found, expected)
    return [_with_words(lines) for lines in zip(*texts, strict=True)]


def _with_words(references: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(line for line in references if line.strip()) or references[:1]


def n_references(sentences: Sequence[Sequence[bytes]]) -> int:
    """The number of references of each sentence; 0 if it varies."""
    numbers = {*map(len, sentences)}
    return numbers.pop() if len(numbers) == 1 else 0


def are_few(hypotheses: Sequence[tuple[int, bytes]]) -> bool:
    """Whether counting hypotheses plainly takes no longer than loading compiled code for it."""
    return len(hypotheses) <= FEW and all(len(words) <= SHORT for _, words in hypotheses)


def ngrams(units: Sequence[Any], order: int) -> Counter[Any]:
    """How often each n-gram of an order is in a text."""
    places = range(len(units) - order + 1)
    return Counter(tuple(units[place : place + order]) for place in places)


def unicode(text: bytes) -> str:
    """The characters of a text; bytes that are no UTF-8 become one replacement each."""
    return text.decode("utf-8", "replace")


@dataclass(frozen=True)
class MixedMetric(Metric):
    """A weighted sum of metrics, 0 to 100 each; those of which less is better count with a minus.

    Attributes:
        parts: the metrics, with their weights and the columns of their statistics.
    """

    parts: tuple[tuple[Metric, float, slice], ...]

    def value(self, sums: Counts) -> Values:
        """The weighted sum of the values of summed statistics, *Shape:* (..., n_statistics) -> (...)."""
        values = [w * metric.sign * metric.value(sums[..., at]) for metric, w, at in self.parts]
        return np.asarray(np.sum(values, axis=0))

    def quality(self, statistics: Counts) -> Values:
        """The weighted mean of the qualities of each hypothesis."""
        return self._mean([metric.quality(statistics[:, at]) for metric, _, at in self.parts])

    def gains(self, statistics: Counts) -> Values:
        """The weighted mean of the gains of each hypothesis; for BLEU, BLEU+1 times the reference's words."""
        found = []
        for metric, _, at in self.parts:
            own = statistics[:, at]
            gains = metric.gains(own)
            found.append(metric.quality(own) * own[:, -1] if gains is None else gains)
        return self._mean(found)

    def _mean(self, values: Sequence[Values]) -> Values:
        return np.asarray(
            np.average(values, axis=0, weights=[weight for _, weight, _ in self.parts])
        )


class MixedReferences(MetricReferences):
    """References for several metrics, each with its weight; see `MetricReferences`."""

    def __init__(self, name: str, counters: Sequence[tuple[MetricReferences, float]]) -> None:
        super().__init__(counters[0][0].sentences)
        self._counters = [counter for counter, _ in counters]
        ends = np.cumsum(
            [0, *(counter.statistics([]).shape[1] for counter, _ in counters)]
        ).tolist()
        parts = tuple(
            (counter.metric, weight, slice(first, end))
            for (counter, weight), first, end in zip(counters, ends, ends[1:], strict=False)
        )
        label = " ".join(f"{w * metric.sign:+g} {metric.label}" for metric, w, _ in parts)
        self.metric = MixedMetric(name, label.removeprefix("+"), 1, parts)

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> Any:
        """Statistics of hypotheses, those of the metrics side by side."""
        pairs = [*hypotheses]
        return np.hstack([counter.statistics(pairs) for counter in self._counters])
