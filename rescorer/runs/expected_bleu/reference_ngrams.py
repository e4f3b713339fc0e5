"""Smoothed BLEU of single sentences in compiled code: BLEU+1 of Lin and Och (2004).

The n-grams of a sentence's references are nodes of a trie; the parent lacks the last word.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.hash_table import (
    FREE,
    compiled_n_slots,
    hash_next,
    hash_number,
    slot_of,
)
from moses_bridge.base.compiled.inner import inner, inner_maker

MAX_ORDER = 4
TINY = 1e-9  # replaces a count of 0 in a logarithm
ROOT = 0
WORD_BITS = 32


class ReferenceNgrams(NamedTuple):
    """The n-grams of a sentence's references.

    Attributes:
        keys: node of the n-gram without the last word, times 2^32, plus that word; FREE in a free slot,
            *Shape:* (n_slots,).
        nodes: the node of a slot, *Shape:* (n_slots,).
        most: highest count of a node's n-gram in one reference, *Shape:* (n_nodes,).
        counts: room for counting, all 0, *Shape:* (n_nodes,).
    """

    keys: NDArray[np.int64]
    nodes: NDArray[np.int32]
    most: NDArray[np.int32]
    counts: NDArray[np.int32]


@inner_maker
def reference_ngrams(numbers: Any, starts: Any) -> ReferenceNgrams:
    """The n-grams of references.

    `numbers` are those of words, (n_words,), `starts` the first word of each and the end of the last, (n + 1,).
    """
    most_nodes = MAX_ORDER * (starts[-1] - starts[0]) + 1
    slots = compiled_n_slots(most_nodes)
    found = ReferenceNgrams(
        np.full(slots, FREE, np.int64),
        np.empty(slots, np.int32),
        np.zeros(most_nodes, np.int32),
        np.zeros(most_nodes, np.int32),
    )
    n_nodes = ROOT + 1
    for reference in range(len(starts) - 1):
        n_nodes = _enter(found, numbers, starts[reference], starts[reference + 1], n_nodes)
        for node in range(n_nodes):
            found.most[node] = max(found.most[node], found.counts[node])
            found.counts[node] = 0
    return found


@inner
def _enter(ngrams: ReferenceNgrams, numbers: Any, start: int, end: int, n_nodes: int) -> int:
    """Count the n-grams of a reference and return the new number of nodes."""
    for first in range(start, end):
        node = ROOT
        for word in range(first, min(first + MAX_ORDER, end)):
            slot = _find(ngrams.keys, node, numbers[word])
            if ngrams.keys[slot] == FREE:
                ngrams.keys[slot] = _key(node, numbers[word])
                ngrams.nodes[slot] = n_nodes
                n_nodes += 1
            node = ngrams.nodes[slot]
            ngrams.counts[node] += 1
    return n_nodes


@inner
def bleu_of(ngrams: ReferenceNgrams, lens: Any, words: Any, n_words: int, matches: Any) -> float:
    """BLEU+1 of a hypothesis, 0 to 1; the reference length is the closest one, of two the shorter.

    One is added to matches and totals of the orders above 1. `lens` (n,) has the words of each reference,
    the first n_words of `words` are the hypothesis, and `matches` (MAX_ORDER,) is room for counts.
    """
    if n_words == 0:
        return 0.0
    _count_matches(ngrams, words, n_words, matches)
    log_precision = 0.0
    for order in range(MAX_ORDER):
        added = min(1, order)
        total = max(0, n_words - order) + added
        log_precision += math.log(max(matches[order] + added, TINY) / max(total, TINY))
    shortness = min(0.0, 1 - _closest(lens, n_words) / n_words)
    return math.exp(log_precision / MAX_ORDER + shortness)


@inner
def _count_matches(ngrams: ReferenceNgrams, words: Any, n_words: int, matches: Any) -> None:
    for order in range(MAX_ORDER):
        matches[order] = 0
    for first in range(n_words):
        node = ROOT
        for order in range(min(MAX_ORDER, n_words - first)):
            slot = _find(ngrams.keys, node, words[first + order])
            if ngrams.keys[slot] == FREE:
                break
            node = ngrams.nodes[slot]
            ngrams.counts[node] += 1
            matches[order] += ngrams.counts[node] <= ngrams.most[node]
    for node in range(len(ngrams.counts)):
        ngrams.counts[node] = 0


@inner
def _closest(lens: Any, n_words: int) -> int:
    closest = 0
    for length in lens:
        if length == 0:  # no reference of this sentence
            continue
        distance, least = abs(length - n_words), abs(closest - n_words)
        if closest == 0 or distance < least or (distance == least and length < closest):
            closest = length
    return int(closest)


@inner
def _key(node: int, word: int) -> int:
    return (node << WORD_BITS) + word


@inner
def _find(keys: Any, node: int, word: int) -> int:
    """The slot of a node's n-gram continued by a word, or the free slot where it belongs."""
    key = _key(node, word)
    slot = slot_of(hash_next(hash_number(node + 1), word), len(keys))
    while keys[slot] not in (key, FREE):
        slot = (slot + 1) & (len(keys) - 1)
    return int(slot)
