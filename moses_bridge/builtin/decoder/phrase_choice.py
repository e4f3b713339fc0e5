"""The translations of a source phrase used in the search: the best table-limit ones by weighted score.

Like Moses, it ranks them by all stateless features and the language model over the phrase alone
(TargetPhrase::GetFutureScore, TargetPhraseCollection::Prune).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from moses_bridge.builtin.decoder.feature_slots import (
    LANGUAGE_MODEL,
    PHRASE_PENALTY,
    PHRASE_TABLE,
    WORD_PENALTY,
)
from moses_bridge.builtin.decoder.loaded_table import TableRows
from moses_bridge.builtin.decoder.weighted_model import UNKNOWN_SIZE, WeightedModel, lm_word
from moses_bridge.builtin.language_model.lm_index import LN10, lm_score
from moses_bridge.compiled.inner import inner


@inner
def stateless_score(rows: TableRows, row: int, weights: Any) -> float:
    """Weighted sum of the stateless features of a row."""
    n_words = rows.word_starts[row + 1] - rows.word_starts[row]
    score = weights[PHRASE_PENALTY] - weights[WORD_PENALTY] * n_words
    for i in range(rows.scores.shape[1]):
        score += weights[PHRASE_TABLE + i] * rows.scores[row, i]
    return float(score)


@inner
def ask_alone(row: int, model: WeightedModel, context: Any) -> None:
    """Fill the language model's values of a row without context (`PhrasesAlone`), if not yet computed."""
    rows, lm, alone = model.rows, model.lm, model.alone
    if alone.context_sizes[row] != UNKNOWN_SIZE:
        return
    n_context = 0
    for i in range(rows.word_starts[row], rows.word_starts[row + 1]):
        alone.word_log10s[i], n_context = lm_score(
            lm.tables, context, n_context, lm_word(lm, rows.words[i]), context
        )
    alone.context_sizes[row] = n_context


@inner
def _phrase_log10(row: int, model: WeightedModel, context: Any) -> float:
    """Log10 probability of a row's target words without context."""
    ask_alone(row, model, context)
    total = 0.0
    for i in range(model.rows.word_starts[row], model.rows.word_starts[row + 1]):
        total += model.alone.word_log10s[i]
    return total


@njit(cache=True)
def choose(node: int, model: WeightedModel) -> None:
    """Fill the choices of one trie node, best first; rows with equal scores are in the table's order.

    Args:
        node: the node.
        model: the model; its choices are changed.
    """
    first, last = model.node_starts[node], model.node_starts[node + 1]
    scores = np.empty(last - first)
    context = np.zeros(max(1, model.lm.order - 1), np.int32)
    for i in range(first, last):
        row = model.node_rows[i]
        if np.isnan(model.lm_scores[row]):
            model.lm_scores[row] = _phrase_log10(row, model, context)
        lm_score_alone = LN10 * model.weights[LANGUAGE_MODEL] * model.lm_scores[row]
        scores[i - first] = stateless_score(model.rows, row, model.weights) + lm_score_alone
    ranking = np.argsort(-scores, kind="mergesort")
    choices = model.choices
    begin = choices.starts[node]
    for i in range(choices.starts[node + 1] - begin):
        choices.rows[begin + i] = model.node_rows[first + ranking[i]]
    choices.done[node] = True
