"""Near copies: the similarity of a sentence to the nearest sentence of another text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import AnyStr

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.progress import Progress

LEVELS = (0.5, 0.7, 0.8)  # the similarities whose shares are stated
FAR = LEVELS[0]  # a sentence is far from a text without a sentence at least as similar as this
DIGITS = 9  # similarities are quotients of numbers of words: 1 - 3 / 10 must be 0.7
SLACK = 1e-6  # with a limit of 0.6 itself, RapidFuzz leaves out 1 - 2 / 5
VALUES_AT_ONCE = 1 << 22  # of the table of similarities, 8 bytes each
SENTENCES_AT_ONCE = (
    1 << 14
)  # each of their words becomes one of the 1,114,112 characters of Unicode
NOWHERE = chr(0)  # a word missing from the other text

Words = Sequence[str] | Sequence[bytes]
Ranks = Sequence[int] | NDArray[np.int64]


def nearest_similarities(
    sentences: Sequence[AnyStr],
    others: Sequence[AnyStr],
    least: float = FAR,
    ranks: tuple[Ranks, Ranks] | None = None,
    jobs: int = 1,
) -> NDArray[np.float64]:
    """Similarity of each sentence to the nearest of the others: 1 - edit distance / words of the longer one.

    This is the fuzzy match score of translation memories (Koehn & Senellart 2010, section 3), with the distance
    of Levenshtein (1966) on words, which are separated by blanks. All others of a possible length are compared;
    with ranks of the sentences and of the others, only those with a higher one. Similarities below `least`,
    above 0 and at most 1, are 0: the nearer to 1, the faster. `jobs` are threads; -1 takes one for each
    processor. The result is rounded to nine digits, *Shape:* (n_sentences,).
    """
    split = [sentence.split() for sentence in sentences]
    found = np.zeros(len(sentences))
    own_ranks, other_ranks = ([0] * len(sentences), [1] * len(others)) if ranks is None else ranks
    with Progress("near copies", len(sentences), "sentences") as progress:
        for places in blocks_of(range(len(split)), SENTENCES_AT_ONCE):
            letters = _letters([split[place] for place in places])
            texts = _Texts(others, other_ranks, letters)
            for group in _of_one_length(places, split, len(others)):
                own = ["".join(map(letters.__getitem__, split[place])) for place in group]
                ranks_of_own = np.array([own_ranks[place] for place in group])
                found[group] = texts.nearest(own, ranks_of_own, least, jobs)
                progress.update(len(group))
    return found


def near_shares(similarities: NDArray[np.float64]) -> dict[str, float]:
    """The share of `nearest_similarities` (n_sentences,) reaching each of `LEVELS`, by the level's digits."""
    return {str(level): float((similarities >= level).mean()) for level in LEVELS}


class _Texts:
    """The other sentences as strings of a letter per word, short ones first; of equal ones the highest rank."""

    def __init__(
        self, sentences: Sequence[AnyStr], ranks: Ranks, letters: Mapping[str | bytes, str]
    ) -> None:
        highest: dict[str, int] = {}
        for sentence, rank in zip(sentences, ranks, strict=True):
            text = "".join(letters.get(word, NOWHERE) for word in sentence.split())
            highest[text] = max(rank, highest.get(text, rank))
        self._texts = sorted(highest, key=len)
        self._ranks = np.array([highest[text] for text in self._texts], np.int64)
        self._lengths = np.array([len(text) for text in self._texts], np.int64)

    def nearest(
        self, own: Sequence[str], ranks: NDArray[np.int64], least: float, jobs: int
    ) -> NDArray[np.float64]:
        """The highest similarity of each of some texts of one length, *Shape:* (n,)."""
        shortest, longest = len(own[0]) * least - SLACK, len(own[0]) / least + SLACK
        first = np.searchsorted(self._lengths, shortest, "left")
        last = np.searchsorted(self._lengths, longest, "right")
        if first == last:
            return np.zeros(len(own))
        found = process.cdist(
            own,
            self._texts[first:last],
            scorer=Levenshtein.normalized_similarity,
            score_cutoff=max(0.0, least - SLACK),
            dtype=np.float64,
            workers=jobs,
        )
        found[self._ranks[None, first:last] <= ranks[:, None]] = 0
        nearest = np.round(found.max(axis=1), DIGITS)
        return np.where(nearest >= least, nearest, 0.0)


def _letters(sentences: Sequence[Words]) -> dict[str | bytes, str]:
    numbers: defaultdict[str | bytes, str] = defaultdict(map(chr, count(1)).__next__)
    for words in sentences:
        for word in words:
            numbers[word]
    return dict(numbers)


def _of_one_length(
    places: Sequence[int], sentences: Sequence[Words], n_others: int
) -> Iterator[list[int]]:
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for place in places:
        by_length[len(sentences[place])].append(place)
    n_at_once = max(1, VALUES_AT_ONCE // max(1, n_others))
    for group in by_length.values():
        yield from blocks_of(group, n_at_once)
