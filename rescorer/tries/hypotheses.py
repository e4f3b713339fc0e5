"""Target hypotheses that grow word by word, and the choice of the best or of drawn ones.

Notation: n sources; k live hypotheses of all sources; V words.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.contract.vocabulary import Vocabulary


class Live(NamedTuple):
    """Hypotheses without </s>, those of a source together.

    Attributes:
        sources: the source of each, rising, *Shape:* (k,).
        draws: which sample of its source each is; 0 in a search, *Shape:* (k,).
        log_probs: natural log, *Shape:* (k,).
        words: ids, *Shape:* (k, length).
        places: the most attended word of the source for each word, -1 without one, *Shape:* (k, length).
    """

    sources: NDArray[np.int64]
    draws: NDArray[np.int64]
    log_probs: NDArray[np.float64]
    words: NDArray[np.int64]
    places: NDArray[np.int64]

    @property
    def length(self) -> int:
        """Words in each."""
        return int(self.words.shape[1])

    def rows(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> Live:
        """Some of them."""
        return Live._make(field[chosen] for field in self)

    def extended(
        self, words: NDArray[np.int64], log_probs: NDArray[np.float64], places: NDArray[np.int64]
    ) -> Live:
        """Append a word to each and set its new log-probability."""
        return self._replace(
            log_probs=log_probs,
            words=np.column_stack([self.words, words]),
            places=np.column_stack([self.places, places]),
        )


def first_hypotheses(n_sources: int, n_draws: int) -> Live:
    """The empty hypotheses, n_draws a source."""
    k = n_sources * n_draws
    none = np.empty((k, 0), np.int64)
    sources = np.repeat(np.arange(n_sources), n_draws)
    return Live(sources, np.tile(np.arange(n_draws), n_sources), np.zeros(k), none, none)


class Ended(NamedTuple):
    """A hypothesis with </s>: the score that ranks it, natural log p with </s>, ids without it, and places."""

    score: float
    log_prob: float
    words: list[int]
    places: list[int]


# Hypotheses with one more word, and the previous hypothesis of each, *Shape:* (k,).
Chosen = tuple[Live, NDArray[np.int64]]


class Beam:
    """The best continuations of each source, and the best ended hypotheses.

    A hypothesis goes on while it could still be one of the n best: log p only falls, so its score cannot
    become better than its present log p with the penalty of the longest target.

    Of a source n hypotheses are wanted and `width` go on; `length_penalty` is alpha in
    log p / (words with </s>)^alpha, `longest` the most words of the targets of each source, (n_sources,).
    """

    def __init__(
        self, n: int, width: int, length_penalty: float, longest: NDArray[np.int64]
    ) -> None:
        self.n = n
        self.width = width
        self.length_penalty = length_penalty
        self._largest_divisors = (longest + 1.0) ** length_penalty
        self._thresholds = np.full(len(longest), -np.inf)
        self._ended: list[list[Ended]] = [[] for _ in longest]

    def go_on(self, live: Live, log_probs: Tensor, places: NDArray[np.int64]) -> Chosen:
        """The hypotheses that continue; the ended ones are kept.

        Args:
            live: all hypotheses.
            log_probs: natural log p(word | hypothesis), -inf where a word is not allowed, *Shape:* (k, V).
            places: the most attended word of the source in this step, *Shape:* (k,).
        """
        self._end(live, log_probs[:, Vocabulary.end_id].double().cpu().numpy())
        others = log_probs.clone()
        others[:, Vocabulary.end_id] = -torch.inf
        best = others.topk(min(self.width, others.shape[1]), dim=1)
        totals = live.log_probs[:, None] + best.values.double().cpu().numpy()
        parents = np.repeat(np.arange(len(totals)), totals.shape[1])
        kept = self._kept(live.sources[parents], totals.ravel())
        words = best.indices.cpu().numpy().ravel()[kept]
        parents = parents[kept]
        grown = live.rows(parents).extended(words, totals.ravel()[kept], places[parents])
        return grown, parents

    def _kept(self, sources: NDArray[np.int64], totals: NDArray[np.float64]) -> NDArray[np.int64]:
        """The `width` best of each source that may still be wanted, the best ones first."""
        bounds = totals / self._largest_divisors[sources]
        wanted = np.flatnonzero((totals > -np.inf) & (bounds > self._thresholds[sources]))
        order = wanted[np.lexsort([-totals[wanted], sources[wanted]])]
        return order[_ranks(sources[order]) < self.width]

    def _end(self, live: Live, end_log_probs: NDArray[np.float64]) -> None:
        log_probs = live.log_probs + end_log_probs
        scores = log_probs / (live.length + 1.0) ** self.length_penalty
        better = (scores > -np.inf) & (scores > self._thresholds[live.sources])
        for row in np.flatnonzero(better):
            words, places = live.words[row].tolist(), live.places[row].tolist()
            ended = Ended(float(scores[row]), float(log_probs[row]), words, places)
            self._ended[live.sources[row]].append(ended)
        for source in np.unique(live.sources[better]):
            best = sorted(self._ended[source], key=lambda one: (-one.score, one.words))[: self.n]
            self._ended[source] = best
            if len(best) == self.n:
                self._thresholds[source] = best[-1].score

    def ended(self) -> list[list[Ended]]:
        """The n best of each source, the best ones first."""
        return self._ended


def _ranks(sources: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rank of each row in its source, from 0, *Shape:* (k,); rows of a source are adjacent."""
    starts = np.searchsorted(sources, sources)
    return np.arange(len(sources)) - starts


class Draws:
    """Words drawn from the network's distribution, n times a source, each draw at most `longest` words.

    Each source and the seed give their own random numbers; a temperature above 0 divides the logarithms.
    """

    def __init__(
        self, sources: Sequence[bytes], n: int, longest: int, temperature: float, seed: int
    ) -> None:
        self.temperature = temperature
        self._numbers = np.stack(
            [
                np.random.default_rng((seed, zlib.crc32(source))).random((longest + 1, n)).T
                for source in sources
            ]
        )
        self._ended: list[list[Ended | None]] = [[None] * n for _ in sources]

    def go_on(self, live: Live, log_probs: Tensor, places: NDArray[np.int64]) -> Chosen:
        """See `Beam.go_on`; a hypothesis that drew </s> has ended."""
        numbers = self._numbers[live.sources, live.draws, live.length]
        words = _drawn(log_probs, self.temperature, numbers)
        steps = log_probs.double().cpu().numpy()[np.arange(len(words)), words]
        totals = live.log_probs + steps
        for row in np.flatnonzero(words == Vocabulary.end_id):
            total = float(totals[row])
            ended = Ended(total, total, live.words[row].tolist(), live.places[row].tolist())
            self._ended[live.sources[row]][live.draws[row]] = ended
        parents = np.flatnonzero(words != Vocabulary.end_id)
        grown = live.rows(parents).extended(words[parents], totals[parents], places[parents])
        return grown, parents

    def ended(self) -> list[list[Ended]]:
        """The draws of each source in their order."""
        return [[one for one in draws if one is not None] for draws in self._ended]


def _drawn(
    log_probs: Tensor, temperature: float, numbers: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The word at which the sum of the probabilities reaches a number from [0, 1), row by row."""
    heated = torch.softmax(log_probs.float() / temperature, dim=1)
    sums = heated.cumsum(dim=1, dtype=torch.float64)
    reached = torch.from_numpy(numbers).to(sums) * sums[:, -1]
    words = torch.searchsorted(sums, reached[:, None], right=True)[:, 0]
    return np.asarray(words.cpu().numpy(), np.int64)
