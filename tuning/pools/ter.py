"""TER (Snover et al. 2006) as sacreBLEU counts it, with its defaults.

The statistics of a hypothesis are the fewest edits to any of its references, and the mean length of these in
words. The search for shifts is sacreBLEU's own, so it is slow: some milliseconds for a hypothesis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.ter import TER as SacreTer

from moses_bridge.base.progress import track
from tuning.pools.metric import Counts, SummedMetric, TextReferences, Values, unicode

PAIRS_A_TASK = 256  # a second or so: much more than the cost of handing a task to a process

Pair = tuple[bytes, tuple[bytes, ...]]


class TerMetric(SummedMetric):
    """TER, edits for 100 reference words; less is better."""

    def value(self, sums: Counts) -> Values:
        """TER of summed statistics, *Shape:* (..., 2) -> (...)."""
        edits, n_words = sums[..., 0], sums[..., 1]
        rate = np.where(n_words > 0, edits / np.where(n_words > 0, n_words, 1), edits > 0)
        return np.asarray(100 * rate, np.float64)

    def quality(self, statistics: Counts) -> Values:
        """1 - TER of each hypothesis."""
        return 1 - self.value(statistics) / 100

    def gains(self, statistics: Counts) -> Values:
        """Minus the edits of each hypothesis."""
        return -np.asarray(statistics[:, 0], np.float64)


TER = TerMetric("ter", "TER", -1)


class TerReferences(TextReferences):
    """References for TER; see `TextReferences`.

    Args:
        sentences: for each sentence its references.
        jobs: number of counting processes.
    """

    metric: ClassVar[TerMetric] = TER

    def __init__(self, sentences: Sequence[Sequence[bytes]], jobs: int = 1) -> None:
        super().__init__(sentences)
        self._jobs = jobs
        self._counted: dict[Pair, tuple[float, float]] = {}  # many lists share most hypotheses

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> NDArray[np.float64]:
        """Statistics of hypotheses, *Shape:* (n, 2)."""
        pairs = [(words, tuple(self.sentences[number])) for number, words in hypotheses]
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._counted]
        if self._jobs == 1 or len(new) <= PAIRS_A_TASK:
            self._keep(new, map(_edits, new))
        else:
            with ProcessPoolExecutor(self._jobs, mp_context=get_context("spawn")) as processes:
                self._keep(new, processes.map(_edits, new, chunksize=PAIRS_A_TASK))
        rows = [self._counted[pair] for pair in pairs]
        return np.array(rows, np.float64).reshape(-1, 2)

    def _keep(self, pairs: Sequence[Pair], counted: Iterable[tuple[float, float]]) -> None:
        shown = track(counted, "TER", len(pairs), "hypotheses")
        self._counted.update(zip(pairs, shown, strict=True))


def _edits(pair: Pair) -> tuple[float, float]:
    words, references = pair
    score = SacreTer().sentence_score(unicode(words), [unicode(text) for text in references])
    return score.num_edits, score.ref_length
