"""N-grams of sentences as rows of word ids, for networks that see a fixed number of previous words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def sentence_ngrams(
    ids: NDArray[np.int32], lens: NDArray[np.int64], context_words: int, start_id: int, end_id: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """All n-grams of some sentences, </s> included as the last word of each.

    Args:
        ids: word ids of all sentences, one after another, *Shape:* (n_words,).
        lens: words in each sentence, *Shape:* (n_sentences,).
        context_words: previous words before each word.
        start_id: fills the context before the first word.
        end_id: the id of </s>.

    Returns:
        The n-grams, oldest word first, *Shape:* (n_ngrams, context_words + 1), and the sentence of
        each, *Shape:* (n_ngrams,).
    """
    # One text, so that a long sentence needs no more memory than its words: start_id context_words times,
    # the words and </s> of each sentence, and behind all of them one window, so that there always is one.
    firsts = starts_of_runs(lens + context_words + 1)
    text = np.full(int((lens + context_words + 1).sum()) + context_words + 1, start_id, np.int32)
    text[places_of_runs(firsts + context_words, lens)] = ids
    text[firsts + context_words + lens] = end_id
    windows = np.lib.stride_tricks.sliding_window_view(text, context_words + 1)
    sentence = np.repeat(np.arange(len(lens)), lens + 1)
    return windows[places_of_runs(firsts, lens + 1)], sentence


def starts_of_runs(lens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each of some runs begins that stand one after another.

    Args:
        lens: *Shape:* (n,).

    Returns:
        *Shape:* (n,).
    """
    return np.cumsum(lens) - lens


def places_of_runs(firsts: NDArray[np.int64], lens: NDArray[np.int64]) -> NDArray[np.int64]:
    """All places of some runs, run by run.

    Args:
        firsts: where each begins, *Shape:* (n,).
        lens: *Shape:* (n,).

    Returns:
        *Shape:* (sum of lens,).
    """
    return np.arange(int(lens.sum())) + np.repeat(firsts - starts_of_runs(lens), lens)


def distinct_rows(rows: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The distinct rows of an array, and for each row which of them it is.

    Args:
        rows: *Shape:* (n, width).

    Returns:
        Distinct rows, *Shape:* (n_distinct, width), and indices, *Shape:* (n,).
    """
    packed = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
    _, first, inverse = np.unique(packed.ravel(), return_index=True, return_inverse=True)
    return rows[first], inverse.ravel()
