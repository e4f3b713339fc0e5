"""Minimum Bayes risk by a user's command: the number of each hypothesis with each other one as reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tuning.pools.mbr import Likeness
from tuning.pools.number_command import Question

PAIRS_A_CALL = 500_000  # a list of 100 for 50 sentences; some 100 MB of text

Scorer = Callable[[Sequence[Question]], list[float]]
Sentence = tuple[bytes, Sequence[bytes]]  # a source and its hypotheses


def likeness_by_command(score: Scorer) -> Likeness:
    """The likeness by a command, which is asked for all pairs of different hypotheses of a sentence.

    Args:
        score: gives the number of each question; see `NumberCommand`.
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
    numbers = score(
        [
            Question(source, (other,), own)
            for (source, _), texts in zip(sentences, distinct, strict=True)
            for own in texts
            for other in texts
        ]
    )
    sizes = [len(texts) for texts in distinct]
    parts = np.split(np.array(numbers), np.cumsum(np.square(sizes))[:-1])
    for (_, texts), part, names in zip(sentences, parts, distinct, strict=True):
        yield _means(texts, names, part.reshape(len(names), len(names)))


def _means(
    texts: Sequence[bytes], names: Sequence[bytes], table: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The mean number of each text against the others; 0 for a single one.

    Args:
        texts: the hypotheses of a sentence, *Shape:* (n,).
        names: the distinct ones, *Shape:* (d,).
        table: the number of each distinct one against each, *Shape:* (d, d).
    """
    if len(texts) == 1:
        return np.zeros(1)
    places = {name: place for place, name in enumerate(names)}
    of_texts = np.array([places[text] for text in texts])
    counts = np.bincount(of_texts, minlength=len(names))
    means = (table @ counts - np.diagonal(table)) / (len(texts) - 1)
    return np.asarray(means[of_texts])
