"""Phrase pairs with everything about them that no weight and no neighbour changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.lm_index import LN10, LmIndex, LmTables, lm_score
from moses_bridge.builtin.decoder.score_table import ScoreTable, aligned_scores

N_REORDERING_SCORES = 6


@dataclass(frozen=True)
class PhraseModel:
    """Phrase pairs, grouped by source phrase.

    A row is a phrase pair; row i has the target words first_word[i] .. first_word[i + 1] - 1 of the
    arrays over target words.

    Attributes:
        groups: first row and row after the last of each source phrase.
        first_word: (n_rows + 1,) int64.
        scores: (n_rows, n_scores), natural logarithms.
        reordering: (n_rows, 6): previous phrase to this one (monotone, swap, discontinuous), this
            one to the next; natural logarithms.
        is_unknown: (n_rows,) bool: a source word without translation, copied.
        words: (n_words,) int32 numbers of target words in `vocabulary`.
        lm_ids: (n_words,) int32 numbers of the same words in the language model.
        lm_rest: (n_words,) natural log probability of all words of the phrase behind this one,
            given the words of the phrase only.
        n_context: (n_words,) int32 length of the language model's context behind this word, given
            the words of the phrase only.
        lm_total: (n_rows,) natural log probability of the target phrase by itself.
        vocabulary: target words, by number.
    """

    groups: dict[bytes, tuple[int, int]]
    first_word: NDArray[np.int64]
    scores: NDArray[np.float64]
    reordering: NDArray[np.float64]
    is_unknown: NDArray[np.bool_]
    words: NDArray[np.int32]
    lm_ids: NDArray[np.int32]
    lm_rest: NDArray[np.float64]
    n_context: NDArray[np.int32]
    lm_total: NDArray[np.float64]
    vocabulary: list[bytes]


def make_model(table: ScoreTable, reordering: ScoreTable | None, lm: LmIndex) -> PhraseModel:
    """Join the tables of a system.

    Args:
        table: the phrase table.
        reordering: six scores for each phrase pair, or None for a system without them.
        lm: the language model.
    """
    n_rows = len(table.sources)
    moves = np.zeros((n_rows, N_REORDERING_SCORES))
    if reordering is not None:
        moves = aligned_scores(table, reordering)
    groups, order = _group(table.sources)
    targets = table.targets if order is None else [table.targets[row] for row in order]
    rows = slice(None) if order is None else order
    unknown = np.zeros(n_rows, np.bool_)
    return _number(groups, targets, table.scores[rows], moves[rows], unknown, lm)


def with_unknown_words(model: PhraseModel, words: Sequence[bytes], lm: LmIndex) -> PhraseModel:
    """The model with a row that copies the word for each word that has none of its own."""
    missing = sorted({word for word in words if word not in model.groups})
    if not missing:
        return model
    n_rows, n_missing = len(model.scores), len(missing)
    groups = {word: (row, row + 1) for row, word in enumerate(missing)}
    copies = _number(
        groups,
        missing,
        np.zeros((n_missing, model.scores.shape[1])),
        np.zeros((n_missing, N_REORDERING_SCORES)),
        np.ones(n_missing, np.bool_),
        lm,
        model.vocabulary,
    )
    shifted = {word: (row + n_rows, row + n_rows + 1) for row, word in enumerate(missing)}
    return PhraseModel(
        groups=model.groups | shifted,
        first_word=np.append(model.first_word, copies.first_word[1:] + model.first_word[-1]),
        scores=np.append(model.scores, copies.scores, axis=0),
        reordering=np.append(model.reordering, copies.reordering, axis=0),
        is_unknown=np.append(model.is_unknown, copies.is_unknown),
        words=np.append(model.words, copies.words),
        lm_ids=np.append(model.lm_ids, copies.lm_ids),
        lm_rest=np.append(model.lm_rest, copies.lm_rest),
        n_context=np.append(model.n_context, copies.n_context),
        lm_total=np.append(model.lm_total, copies.lm_total),
        vocabulary=copies.vocabulary,
    )


def _group(sources: list[bytes]) -> tuple[dict[bytes, tuple[int, int]], NDArray[np.int64] | None]:
    """The rows of each source, and the new order of rows if equal sources stood apart."""
    numbers: dict[bytes, int] = {}
    group_ids = np.array([numbers.setdefault(source, len(numbers)) for source in sources])
    order = None
    if (np.diff(group_ids) < 0).any():
        order = np.argsort(group_ids, kind="stable")
    ends = np.cumsum(np.bincount(group_ids)).tolist()
    starts = [0, *ends[:-1]]
    return dict(zip(numbers, zip(starts, ends, strict=True), strict=True)), order


def _number(
    groups: dict[bytes, tuple[int, int]],
    targets: Sequence[bytes],
    scores: NDArray[np.float64],
    reordering: NDArray[np.float64],
    is_unknown: NDArray[np.bool_],
    lm: LmIndex,
    known: Sequence[bytes] = (),
) -> PhraseModel:
    """Number the target words, those of `known` as they were, and ask the language model."""
    numbers = {word: number for number, word in enumerate(known)}
    lengths = [target.count(b" ") + 1 if target else 0 for target in targets]
    tokens = b" ".join(target for target in targets if target).split(b" ") if any(lengths) else []
    words = np.array([numbers.setdefault(token, len(numbers)) for token in tokens], np.int32)
    vocabulary = list(numbers)
    lm_ids = np.array([lm.word_id(word) for word in vocabulary], np.int32)[words]
    first_word = np.append(0, np.cumsum(lengths)).astype(np.int64)
    lm_rest, n_context, lm_total = _score_phrases(lm.tables, lm.order, lm_ids, first_word)
    return PhraseModel(
        groups=groups,
        first_word=first_word,
        scores=np.ascontiguousarray(scores),
        reordering=np.ascontiguousarray(reordering),
        is_unknown=is_unknown,
        words=words,
        lm_ids=lm_ids,
        lm_rest=lm_rest,
        n_context=n_context,
        lm_total=lm_total,
        vocabulary=vocabulary,
    )


@njit(cache=True)
def _score_phrases(tables: LmTables, order: int, lm_ids: Any, first_word: Any) -> tuple[Any, ...]:
    n_rows = len(first_word) - 1
    lm_rest = np.zeros(len(lm_ids))
    n_contexts = np.zeros(len(lm_ids), np.int32)
    lm_total = np.zeros(n_rows)
    context = np.zeros(max(1, order - 1), np.int32)
    for row in range(n_rows):
        n_context = 0
        for i in range(first_word[row], first_word[row + 1]):
            log10_prob, n_context = lm_score(tables, context, n_context, lm_ids[i], context)
            n_contexts[i] = n_context
            lm_rest[i] = log10_prob * LN10
            lm_total[row] += log10_prob * LN10
        rest = 0.0
        for i in range(first_word[row + 1] - 1, first_word[row] - 1, -1):
            rest, lm_rest[i] = rest + lm_rest[i], rest
    return lm_rest, n_contexts, lm_total
