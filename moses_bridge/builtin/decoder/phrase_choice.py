"""The translations of a source phrase used in the search: the best table-limit ones of each path.

Like Moses, it ranks them by all stateless features and the language models' scores of the phrase alone
(TargetPhrase::GetFutureScore, TargetPhraseCollection::Prune).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moses_bridge.base.compiled.inner import inner, inner_maker
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.builtin.decoder import feature_slots as slots
from moses_bridge.builtin.decoder.further_models import no_contexts, phrase_score
from moses_bridge.builtin.decoder.table_members import NO_ROW, NodeRows, join_rows
from moses_bridge.builtin.decoder.weighted_model import UNKNOWN_SIZE, WeightedModel, lm_word
from moses_bridge.builtin.language_model.lm_index import LN10, lm_score


@inner
def stateless_score(row: int, model: WeightedModel) -> float:
    """Weighted sum of the stateless features of a row."""
    score = _penalties(row, model)
    for i in range(model.rows.scores.shape[1]):
        score += model.weights[slots.PHRASE_TABLE + i] * model.rows.scores[row, i]
    return float(score)


@inner
def _penalties(row: int, model: WeightedModel) -> float:
    rows, weights = model.rows, model.weights
    first, last = rows.word_starts[row], rows.word_starts[row + 1]
    score = weights[slots.PHRASE_PENALTY] - weights[slots.WORD_PENALTY] * (last - first)
    return float(score + unknown_to_model(rows.words, first, last, model))


@inner
def unknown_to_model(words: Any, first: int, last: int, model: WeightedModel) -> float:
    """The weighted number of words[first:last] unknown to the first language model."""
    weight, n_unknown = model.weights[slots.UNKNOWN_TO_MODEL], 0
    if weight != 0.0:
        for i in range(first, last):
            n_unknown += words[i] >= model.lm.n_words
    return float(weight * n_unknown)


@inner
def ask_alone(row: int, model: WeightedModel, context: Any) -> None:
    """Fill the language model's values of a row without context (`PhrasesAlone`) if missing."""
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
def further_alone(row: int, model: WeightedModel, contexts: Any) -> float:
    """Weighted scores of all language models but the first for a row's target words without context."""
    if model.lm.further.masks.size == 0:
        return 0.0
    if np.isnan(model.further_scores[row]):
        first, last = model.rows.word_starts[row], model.rows.word_starts[row + 1]
        no_contexts(contexts)
        model.further_scores[row] = phrase_score(
            model.rows.words, first, last, False, model.lm.further, model.weights, contexts
        )
    return float(model.further_scores[row])


@compiled
def choose(node: int, model: WeightedModel) -> None:
    """Fill the choices of one trie node, best first; ties are in the order of the tables."""
    numbers = model.node_rows[model.node_starts[node] : model.node_starts[node + 1]]
    scores = np.empty(len(numbers))
    context = np.zeros(max(1, model.lm.order - 1), np.int32)
    contexts = np.empty(model.lm.further.places[-1], np.int32)
    if model.members.has_groups:
        numbers = _joined(numbers, model, context, contexts)
        scores = scores[: len(numbers)]
    for i in range(len(numbers)):
        row = numbers[i]
        scores[i] = stateless_score(row, model)
        scores[i] += _weighted_lm(row, model, context)
        scores[i] += further_alone(row, model, contexts)
    n_kept = np.zeros(len(model.choices.table_limits), np.int64)
    _keep_best(node, numbers, np.argsort(-scores, kind="mergesort"), model, n_kept)


@inner
def _weighted_lm(row: int, model: WeightedModel, context: Any) -> float:
    ask_alone(row, model, context)
    log10 = 0.0
    for i in range(model.rows.word_starts[row], model.rows.word_starts[row + 1]):
        log10 += model.alone.word_log10s[i]
    return float(LN10 * model.weights[slots.LANGUAGE_MODEL] * np.float32(log10))


@inner_maker
def _joined(numbers: Any, model: WeightedModel, context: Any, contexts: Any) -> Any:
    """The used rows of a node, with their scores filled."""
    n_rows = len(numbers)
    parts = np.full((n_rows, model.members.shares.shape[1]), NO_ROW, np.int64)
    found = NodeRows(numbers, np.empty(n_rows), np.zeros(n_rows, np.int64), parts)
    for i in range(n_rows):
        found.alone[i] = _penalties(numbers[i], model)
        found.alone[i] += _weighted_lm(numbers[i], model, context)
        found.alone[i] += further_alone(numbers[i], model, contexts)
    join_rows(found, model.rows, model.first_rows, model.members, model.weights)
    return numbers[found.owners > 0]


@inner
def _keep_best(node: int, numbers: Any, ranked: Any, model: WeightedModel, n_kept: Any) -> None:
    """Choose the best rows of each path up to its limit, counted in n_kept."""
    choices, place = model.choices, model.choices.starts[node]
    for i in range(len(ranked)):
        row = numbers[ranked[i]]
        path = 0
        while row >= model.first_rows[model.members.first_tables[path + 1]]:
            path += 1
        limit = choices.table_limits[path]
        if limit == 0 or n_kept[path] < limit:
            choices.rows[place] = row
            n_kept[path] += 1
            place += 1
    choices.ends[node] = place
    choices.done[node] = True
