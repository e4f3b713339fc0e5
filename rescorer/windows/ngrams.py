"""N-grams of sentences as rows of word ids, for networks that see a fixed number of previous words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def sentence_ngrams(
    ids: NDArray[np.int32], lens: NDArray[np.int64], context_words: int, start_id: int, end_id: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """All n-grams of a batch of sentences, </s> included as the last word of each.

    Args:
        ids: word ids, *Shape:* (n_sentences, max_len); what stands behind a sentence is ignored.
        lens: words in each sentence, *Shape:* (n_sentences,).
        context_words: previous words before each word.
        start_id: fills the context before the first word.
        end_id: the id of </s>.

    Returns:
        The n-grams, oldest word first, *Shape:* (n_ngrams, context_words + 1), and the sentence of
        each, *Shape:* (n_ngrams,).
    """
    n_sentences, max_len = ids.shape
    padded = np.full((n_sentences, context_words + max_len + 1), start_id, np.int32)
    padded[:, context_words:-1] = ids
    padded[np.arange(n_sentences), context_words + lens] = end_id
    windows = np.lib.stride_tricks.sliding_window_view(padded, context_words + 1, axis=1)
    inside = np.arange(max_len + 1)[None, :] <= lens[:, None]
    sentence, _ = np.nonzero(inside)
    return np.ascontiguousarray(windows[inside]), sentence


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
