"""Phrase pairs that are consistent with the word links of a corpus.

The conditions are those of Moses's `extract` (Koehn, Och and Marcu 2003, section 4.5 of Koehn's
"Statistical Machine Translation", 2010): no link leaves the pair, at least one lies inside, and
unlinked source words at the edges are taken in or left out, all ways counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus
from moses_bridge.progress import Progress

MAX_WORDS = 7
SENTENCES_AT_ONCE = 10_000
MONOTONE, SWAP, OTHER = 0, 1, 2


class Occurrences(NamedTuple):
    """Extracted phrase pairs, one entry for each place where one was found.

    Attributes:
        source_starts, target_starts: (n,) positions of the first words in the running texts.
        source_lens, target_lens: (n,) words.
        orientations: (n,) 3 * (orientation to the phrase before) + (orientation to the one after),
            each MONOTONE, SWAP or OTHER as seen by the links of the words at the corners.
    """

    source_starts: NDArray[np.int32]
    target_starts: NDArray[np.int32]
    source_lens: NDArray[np.uint8]
    target_lens: NDArray[np.uint8]
    orientations: NDArray[np.uint8]


NO_OCCURRENCES = Occurrences(*(np.empty(0, kind) for kind in ("i4", "i4", "u1", "u1", "u1")))


@dataclass(frozen=True)
class _Sentences:
    """What the compiled search needs of a corpus."""

    corpus: AlignedCorpus
    first: int
    end: int
    max_words: int


def extract(corpus: AlignedCorpus, max_words: int) -> Iterator[Occurrences]:
    """Yield all phrase pairs of at most `max_words` words on each side, 10,000 sentences at a time."""
    n_sentences = len(corpus.source.starts) - 1
    with Progress("phrase pairs", n_sentences, "sentences") as progress:
        for first in range(0, n_sentences, SENTENCES_AT_ONCE):
            end = min(first + SENTENCES_AT_ONCE, n_sentences)
            yield _extract_part(_Sentences(corpus, first, end, max_words))
            progress.update(end - first)


def _extract_part(part: _Sentences) -> Occurrences:
    corpus = part.corpus
    found = _walk(
        corpus.source.starts[part.first : part.end + 1],
        corpus.target.starts[part.first : part.end + 1],
        corpus.of_source.starts,
        corpus.of_target.starts,
        corpus.of_target.others,
        part.max_words,
    )
    return Occurrences(
        found[:, 0].copy(),
        found[:, 1].copy(),
        found[:, 2].astype(np.uint8),
        found[:, 3].astype(np.uint8),
        found[:, 4].astype(np.uint8),
    )


@njit(cache=True, nogil=True)
def _walk(
    source_starts: Any,
    target_starts: Any,
    n_source_links: Any,
    target_links: Any,
    others: Any,
    max_words: int,
) -> Any:
    """Phrase pairs of some sentences as rows (source start, target start, lengths, orientations).

    `n_source_links[i]` counts the links of all source words before i, `target_links` are offsets
    into `others`.
    """
    found = np.empty((1 << 16, 5), np.int32)
    n_found = 0
    for sentence in range(len(source_starts) - 1):
        source_begin, source_end = source_starts[sentence], source_starts[sentence + 1]
        target_begin, target_end = target_starts[sentence], target_starts[sentence + 1]
        for target in range(target_begin, target_end):
            lowest, highest, n_links = source_end, source_begin - 1, 0
            for last_target in range(target, min(target + max_words, target_end)):
                for k in range(target_links[last_target], target_links[last_target + 1]):
                    lowest, highest = min(lowest, others[k]), max(highest, others[k])
                    n_links += 1
                if n_links == 0:
                    continue
                if highest - lowest >= max_words:
                    break
                if n_source_links[highest + 1] - n_source_links[lowest] != n_links:
                    continue
                source = lowest
                while (
                    source >= source_begin
                    and source > highest - max_words
                    and (source == lowest or n_source_links[source + 1] == n_source_links[source])
                ):
                    last = highest
                    while (
                        last < source_end
                        and last < source + max_words
                        and (last == highest or n_source_links[last + 1] == n_source_links[last])
                    ):
                        if n_found == len(found):
                            larger = np.empty((2 * n_found, 5), np.int32)
                            larger[:n_found] = found
                            found = larger
                        found[n_found, 0] = source
                        found[n_found, 1] = target
                        found[n_found, 2] = last - source + 1
                        found[n_found, 3] = last_target - target + 1
                        bounds = (source_begin, source_end, target_begin, target_end)
                        found[n_found, 4] = 3 * _orientation(
                            _linked(source - 1, target - 1, bounds, target_links, others),
                            _linked(last + 1, target - 1, bounds, target_links, others),
                        ) + _orientation(
                            _linked(last + 1, last_target + 1, bounds, target_links, others),
                            _linked(source - 1, last_target + 1, bounds, target_links, others),
                        )
                        n_found += 1
                        last += 1
                    source -= 1
    return found[:n_found].copy()


@njit(cache=True, nogil=True)
def _orientation(follows: bool, precedes: bool) -> int:
    if follows == precedes:
        return OTHER
    return MONOTONE if follows else SWAP


@njit(cache=True, nogil=True)
def _linked(source: int, target: int, bounds: Any, target_links: Any, others: Any) -> bool:
    """Whether two words are linked; so are the places before both first and after both last words."""
    source_begin, source_end, target_begin, target_end = bounds
    if source < source_begin or target < target_begin:
        return bool(source < source_begin and target < target_begin)
    if source >= source_end or target >= target_end:
        return bool(source >= source_end and target >= target_end)
    for k in range(target_links[target], target_links[target + 1]):  # noqa: SIM110 - compiled
        if others[k] == source:
            return True
    return False
