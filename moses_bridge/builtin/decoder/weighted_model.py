"""A model with weights, in the form for compiled code, and the translations of a source phrase under them.

The search uses the best table-limit ones of each path. Like Moses, `choose` ranks them by all stateless
features and the language models' scores of the phrase alone (TargetPhrase::GetFutureScore,
TargetPhraseCollection::Prune).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.inner import inner, inner_maker
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.builtin.decoder import feature_slots as slots
from moses_bridge.builtin.decoder.further_models import FurtherModels, no_contexts, phrase_score
from moses_bridge.builtin.decoder.loaded_table import LoadedTable, TableRows, rows_of_tables
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.source_trie import TrieTables
from moses_bridge.builtin.decoder.table_members import NO_ROW, Members, NodeRows, join_rows
from moses_bridge.builtin.language_model.lm_index import LN10, LmTables, lm_score

UNKNOWN_SIZE = -1


class LanguageModel(NamedTuple):
    """The language models in the form for the search: values of the first `LmIndex`, and the further ones."""

    tables: LmTables
    n_words: int  # of its vocabulary; target words from this number on are unknown to it
    unk_id: int
    bos_id: int
    eos_id: int
    order: int
    further: FurtherModels


class Choices(NamedTuple):
    """The best rows of each source phrase under the weights, filled when first needed.

    Attributes:
        starts: (n_nodes + 1,) int64; node i's rows are rows[starts[i]:ends[i]], best first.
        ends: (n_nodes,) int64; without groups of tables, the first row of the next node.
        rows: int64, numbers of rows.
        done: (n_nodes,) bool, whether the node's rows have been chosen.
        table_limits: (n_paths,) int64, largest number of rows of each path for a node; 0 for all.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    rows: NDArray[np.int64]
    done: NDArray[np.bool_]
    table_limits: NDArray[np.int64]


class PhrasesAlone(NamedTuple):
    """The language model's values of rows without context, filled when first needed."""

    word_log10s: NDArray[np.float64]  # log10 probability of each of `TableRows.words`
    context_sizes: NDArray[np.int8]  # (n_rows,) words of context after the row, or UNKNOWN_SIZE


class WeightedModel(NamedTuple):
    """Tables and weights for making translation options, common to all sentences.

    Attributes:
        rows, trie, first_rows, node_starts, node_rows: see `LoadedTable`. With groups of tables, the rows'
            scores are those of the paths, filled with the choices.
        members: the tables of each path.
        reordering: (n_rows, 6) natural logarithms.
        alone: the language model's values of rows without context.
        further_scores: (n_rows,) float64, weighted scores of all further models, NaN if not yet computed.
        lm: the language models.
        choices: the rows kept for each source phrase.
        weights: the weight vector.
        early_distortion: whether jumps have the cost `early_cost`.
    """

    rows: TableRows
    members: Members
    trie: TrieTables
    first_rows: NDArray[np.int64]
    node_starts: NDArray[np.int64]
    node_rows: NDArray[np.int64]
    reordering: NDArray[np.float32]
    alone: PhrasesAlone
    further_scores: NDArray[np.float64]
    lm: LanguageModel
    choices: Choices
    weights: NDArray[np.float64]
    early_distortion: bool


def make_weighted_model(
    model: Model, weights: NDArray[np.float64], alone: PhrasesAlone | None = None
) -> WeightedModel:
    """Combine a model with weights, (n_features,).

    `alone` does not depend on the weights, so several weighted models can share it, one after the other.
    """
    table, lm = model.table, model.lm
    return WeightedModel(
        rows=_rows_to_choose(table.rows, model),
        members=model.members,
        trie=table.trie,
        first_rows=table.first_rows,
        node_starts=table.node_starts,
        node_rows=table.node_rows,
        reordering=model.reordering,
        alone=alone or no_phrases_alone(table.rows),
        further_scores=np.full(len(table.rows.nodes) if model.further.width else 0, np.nan),
        lm=LanguageModel(
            tables=lm.tables,
            n_words=len(lm.vocabulary),
            unk_id=lm.unk_id,
            bos_id=lm.bos_id,
            eos_id=lm.eos_id,
            order=lm.order,
            further=model.further,
        ),
        choices=no_choices(table, model.table_limits, model.members),
        weights=weights,
        early_distortion=model.values.early_distortion,
    )


def _rows_to_choose(rows: TableRows, model: Model) -> TableRows:
    """The rows, with empty scores for groups, whose pages need no memory, or with a column for sparse sums."""
    if model.sparse:
        sums = np.zeros(len(rows.nodes), np.float32)
        return rows._replace(scores=np.column_stack([rows.scores, sums]))
    if not model.members.has_groups:
        return rows
    n_scores = len(model.members.defaults)
    return rows._replace(scores=np.zeros((len(rows.nodes), n_scores), np.float32))


def no_phrases_alone(rows: TableRows) -> PhrasesAlone:
    """Arrays for all rows; unwritten pages need no memory."""
    return PhrasesAlone(np.empty(len(rows.words)), np.full(len(rows.nodes), UNKNOWN_SIZE, np.int8))


def no_choices(table: LoadedTable, table_limits: Sequence[int], members: Members) -> Choices:
    """Make empty arrays for the choices of all nodes; table_limits are those of the paths, 0 keeping all."""
    kept = np.zeros(len(table.node_starts) - 1, np.int64)
    of_paths = np.add.reduceat(rows_of_tables(table), members.first_tables[:-1])
    for counts, limit in zip(of_paths, table_limits, strict=True):
        kept += np.minimum(counts, limit) if limit > 0 else counts
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    return Choices(
        starts,
        starts[1:].copy() if members.has_groups else starts[1:],
        np.empty(starts[-1], np.int64),
        np.zeros(len(kept), np.bool_),
        np.array(table_limits, np.int64),
    )


@inner
def lm_word(lm: LanguageModel, word: int) -> int:
    """The language model's number of a target word."""
    return word if word < lm.n_words else lm.unk_id


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
