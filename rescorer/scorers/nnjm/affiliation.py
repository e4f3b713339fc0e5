"""Which source word each target word belongs to (Devlin et al. 2014, section 2.1).

A word with one link has that source word, a word with several the middle one (of an even number the lower,
as in Moses's BilingualLM). A word without links has the source word of the nearest linked target word of its
sentence, the right one of two equally near. In a sentence without links a word has the source word at the same
share of the way. </s> has the place behind the last source word.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FAR = np.iinfo(np.int64).max // 4


class PairLinks(NamedTuple):
    """Word links of some sentence pairs.

    Attributes:
        pairs: the pair of each, *Shape:* (n_links,).
        sources: its source word, counted from 0 in its sentence, *Shape:* (n_links,).
        targets: its target word, likewise, *Shape:* (n_links,).
    """

    pairs: NDArray[np.int64]
    sources: NDArray[np.int64]
    targets: NDArray[np.int64]


def affiliations(
    links: PairLinks, source_lens: NDArray[np.int64], target_lens: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The source word of each target word and of each </s>.

    Args:
        links: of all pairs; no link leaves its pair.
        source_lens: words in each source, *Shape:* (n_pairs,).
        target_lens: words in each target, *Shape:* (n_pairs,).

    Returns:
        Places counted from 0 in the source, the target sentences one after another, each with its </s>,
        *Shape:* (n_target_words + n_pairs,).
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
    """The middle one of each word's links, -1 without any, *Shape:* (n_steps,)."""
    steps = starts[links.pairs] + links.targets
    order = np.lexsort((links.sources, steps))
    counts = np.bincount(steps, minlength=n_steps)
    linked = np.flatnonzero(counts)
    firsts = (np.cumsum(counts) - counts)[linked]
    result = np.full(n_steps, -1)
    result[linked] = links.sources[order[firsts + (counts[linked] - 1) // 2]]
    return result


def _nearest_linked(is_linked: NDArray[np.bool_], sentence: NDArray[np.int64]) -> NDArray[np.int64]:
    """The nearest linked step of each step's sentence, itself where there is none, *Shape:* (n_steps,)."""
    steps = np.arange(len(is_linked))
    left = np.maximum.accumulate(np.where(is_linked, steps, -1))
    right = np.minimum.accumulate(np.where(is_linked, steps, len(steps))[::-1])[::-1]
    to_left = np.where((left >= 0) & (sentence[left] == sentence), steps - left, FAR)
    right_inside = np.minimum(right, len(steps) - 1)
    is_inside = (right < len(steps)) & (sentence[right_inside] == sentence)
    to_right = np.where(is_inside, right - steps, FAR)
    nearest = np.where(to_right <= to_left, right_inside, left)
    return np.where(np.minimum(to_left, to_right) < FAR, nearest, steps)
