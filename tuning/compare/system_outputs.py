"""The outputs of a system as statistics of sentences or documents, and the bootstrap over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import count_lines
from tuning.metrics.bleu import Statistics, bleu

FEWEST_UNITS = 2  # sentences or documents; a variance needs them


@dataclass(frozen=True)
class SystemOutputs:
    """Outputs of one system on a text.

    Attributes:
        statistics: BLEU statistics of each run, *Shape:* (n_runs, n_sentences, 9).
        groups: for each run the number of its network or noise column; runs of one group differ in
            the tuning alone, *Shape:* (n_runs,).
    """

    statistics: NDArray[np.int32] | NDArray[np.int64]
    groups: Sequence[int]

    @property
    def shares(self) -> NDArray[np.float64]:
        """Weight of each run: equal over groups, and over the runs of a group, *Shape:* (n_runs,)."""
        groups = np.asarray(self.groups)
        _, places, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        return np.asarray(1.0 / (len(sizes) * sizes[places]))

    def mean_bleu(self) -> float:
        """BLEU (0 to 100), the mean over the groups of the means over their runs."""
        return float(self.shares @ bleu(self.statistics.sum(axis=1)))

    def group_means(self) -> NDArray[np.float64]:
        """BLEU (0 to 100) of each group, the mean over its runs, *Shape:* (n_groups,)."""
        scores, groups = bleu(self.statistics.sum(axis=1)), np.asarray(self.groups)
        return np.array([scores[groups == name].mean() for name in np.unique(groups)])

    def run_variance(self) -> tuple[float, int] | None:
        """Variance of `mean_bleu` between tunings on this text, and its degrees of freedom; None with one run.

        With several groups it is the variance between their means, which includes that of the tunings.
        """
        means = self.group_means()
        scores = means if len(means) > 1 else bleu(self.statistics.sum(axis=1))
        if len(scores) < 2:
            return None
        return float(scores.var(ddof=1)) / len(scores), len(scores) - 1

    def on(self, chosen: NDArray[np.bool_]) -> SystemOutputs:
        """The same outputs on some of the sentences, *Shape of chosen:* (n_sentences,)."""
        return SystemOutputs(self.statistics[:, chosen], self.groups)

    def by_document(self, documents: NDArray[np.int64]) -> SystemOutputs:
        """The same outputs by document; `documents` has each sentence's number, *Shape:* (n_sentences,)."""
        names, places = np.unique(documents, return_inverse=True)
        sums = np.zeros((len(self.groups), len(names), self.statistics.shape[2]), np.int64)
        for run, statistics in zip(sums, self.statistics, strict=True):
            np.add.at(run, places, statistics)
        return SystemOutputs(sums, self.groups)

    def left_out(self) -> NDArray[np.float64]:
        """`mean_bleu` of the text without each sentence in turn, *Shape:* (n_sentences,)."""
        sums = self.statistics.sum(axis=1, dtype=np.int64, keepdims=True)
        return np.asarray(self.shares @ bleu(sums - self.statistics))


def bootstrap_deviation(statistics: Statistics, n_samples: int, seed: int) -> float:
    """Standard deviation of BLEU (0 to 100) over resampled test sets (Koehn 2004).

    The BLEU statistics are those of one output, *Shape:* (n_sentences, 9); n_samples test sets are drawn with
    replacement.
    """
    counts = _resampled(len(statistics), n_samples, seed)
    return float(bleu(counts @ statistics).std(ddof=1))


# Two are of one comparison: of the whole text, and of the sentences without a near copy in the training text.
@lru_cache(maxsize=2)
def _resampled(n_sentences: int, n_samples: int, seed: int) -> NDArray[np.int64]:
    """How often each test set drawn with replacement has each sentence, *Shape:* (n_samples, n_sentences)."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(n_sentences, np.full(n_sentences, 1 / n_sentences), n_samples)


def read_documents(path: Path, text: Path) -> NDArray[np.int64]:
    """The number of each sentence's document, *Shape:* (n_sentences,), from a file of one name a line.

    Raises:
        InputError: there are other lines than in the text, an empty one, or one document alone.
    """
    names = list(read_text_lines(path))
    n_lines = count_lines(text)
    if len(names) != n_lines:
        raise InputError(path, None, f"{len(names)} lines", f"{n_lines}, as {text} has")
    if b"" in names:
        raise InputError(path, names.index(b"") + 1, "an empty line", "the name of a document")
    distinct = dict.fromkeys(names)
    if len(distinct) < FEWEST_UNITS:
        hint = "Leave out --groups to compare by sentence"
        raise InputError(path, None, "one document", "two or more", hint)
    numbers = {name: number for number, name in enumerate(distinct)}
    return np.array([numbers[name] for name in names], np.int64)
