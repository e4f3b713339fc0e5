"""A model with weights, in the form for compiled code: tables, language model, weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.inner import inner
from moses_bridge.builtin.decoder.further_models import FurtherModels
from moses_bridge.builtin.decoder.loaded_table import LoadedTable, TableRows, rows_of_tables
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.source_trie import TrieTables
from moses_bridge.builtin.decoder.table_members import Members
from moses_bridge.builtin.language_model.lm_index import LmTables

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
