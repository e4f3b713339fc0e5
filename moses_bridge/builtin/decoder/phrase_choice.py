"""The translations of a source phrase that take part in the search: table-limit by weighted score.

Moses cuts by the phrase's own weighted score plus its estimate, that is all stateless features and
the language model over the phrase alone (TargetPhrase::GetFutureScore, TargetPhraseCollection::Prune).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.feature_slots import (
    LANGUAGE_MODEL,
    PHRASE_PENALTY,
    PHRASE_TABLE,
    WORD_PENALTY,
)
from moses_bridge.builtin.decoder.lm_index import LN10, LmTables, lm_score
from moses_bridge.builtin.decoder.loaded_table import PairTables
from moses_bridge.compiled.inner import inner


class Language(NamedTuple):
    """The language model as the search uses it.

    Attributes:
        tables: of LmIndex.
        n_words: target words from this number on are unknown to it.
        unk_id, bos_id, eos_id: its markers.
        order: its order.
    """

    tables: LmTables
    n_words: int
    unk_id: int
    bos_id: int
    eos_id: int
    order: int


class Choices(NamedTuple):
    """The best rows of each source phrase under some weights, filled when first asked for.

    Attributes:
        starts: (n_nodes + 1,) int64; node i's rows are rows[starts[i]:starts[i + 1]], best first.
        rows: int64, numbers of rows.
        done: (n_nodes,) bool, whether the node's rows have been chosen.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    done: NDArray[np.bool_]


def no_choices(node_starts: NDArray[np.int64], table_limit: int) -> Choices:
    """Room for the choices of all nodes; table_limit 0 keeps all rows."""
    counts = np.diff(node_starts)
    kept = np.minimum(counts, table_limit) if table_limit > 0 else counts
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    return Choices(starts, np.empty(starts[-1], np.int64), np.zeros(len(counts), np.bool_))


@inner
def lm_word(language: Language, word: int) -> int:
    """The language model's number of a target word."""
    return word if word < language.n_words else language.unk_id


@inner
def static_score(rows: PairTables, row: int, weights: Any) -> float:
    """Weighted sum of the features that a row has by itself."""
    n_words = rows.word_starts[row + 1] - rows.word_starts[row]
    score = weights[PHRASE_PENALTY] - weights[WORD_PENALTY] * n_words
    for i in range(rows.scores.shape[1]):
        score += weights[PHRASE_TABLE + i] * rows.scores[row, i]
    return float(score)


@inner
def phrase_log10(rows: PairTables, row: int, language: Language, context: Any) -> float:
    """Log10 probability of a row's target words without anything before them."""
    total, n_context = 0.0, 0
    for i in range(rows.word_starts[row], rows.word_starts[row + 1]):
        word = lm_word(language, rows.words[i])
        log_prob, n_context = lm_score(language.tables, context, n_context, word, context)
        total += log_prob
    return total


@njit(cache=True)
def choose(
    node: int, rows: PairTables, node_starts: Any, node_rows: Any, lm_scores: Any,
    language: Language, weights: Any, choices: Choices,
) -> None:  # fmt: skip
    """Fill the choices of one node.

    Args:
        node: trie node of the source phrase.
        rows: the phrase table.
        node_starts: of PhrasePairs.
        node_rows: of PhrasePairs.
        lm_scores: (n_rows,) float32, results of `phrase_log10`, NaN where not yet computed.
        language: the language model.
        weights: the weight vector.
        choices: filled for the node.
    """
    first, last = node_starts[node], node_starts[node + 1]
    scores = np.empty(last - first)
    context = np.zeros(max(1, language.order - 1), np.int32)
    for i in range(first, last):
        row = node_rows[i]
        if np.isnan(lm_scores[row]):
            lm_scores[row] = phrase_log10(rows, row, language, context)
        language_score = LN10 * weights[LANGUAGE_MODEL] * lm_scores[row]
        scores[i - first] = static_score(rows, row, weights) + language_score
    ranking = np.argsort(-scores, kind="mergesort")
    begin = choices.starts[node]
    for i in range(choices.starts[node + 1] - begin):
        choices.rows[begin + i] = node_rows[first + ranking[i]]
    choices.done[node] = True
