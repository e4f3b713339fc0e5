"""A model under some weights, as compiled code needs it: tables, language model, weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.loaded_table import TableRows
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.source_trie import TrieTables
from moses_bridge.builtin.language_model.lm_index import LmTables
from moses_bridge.compiled.inner import inner

UNKNOWN_SIZE = -1


class LanguageModel(NamedTuple):
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


class PhrasesAlone(NamedTuple):
    """What the language model says of rows without anything before them, filled when first asked for.

    Attributes:
        word_log10s: float64, log10 probability of each of `TableRows.words`.
        context_sizes: (n_rows,) int8, words of language model context after the row; UNKNOWN_SIZE where
            the row has not been asked for yet.
    """

    word_log10s: NDArray[np.float64]
    context_sizes: NDArray[np.int8]


class WeightedModel(NamedTuple):
    """What translation options are made of; the same for all sentences that are translated together.

    Attributes:
        rows, trie, node_starts, node_rows: of LoadedTable.
        reordering: (n_rows, 6) natural logarithms.
        lm_scores: (n_rows,) float32, log10 probability of a row's target words without anything before
            them, NaN where it has not been computed yet.
        alone: the same word by word.
        lm: the language model.
        choices: the rows kept for each source phrase.
        weights: the weight vector.
    """

    rows: TableRows
    trie: TrieTables
    node_starts: NDArray[np.int64]
    node_rows: NDArray[np.int64]
    reordering: NDArray[np.float32]
    lm_scores: NDArray[np.float32]
    alone: PhrasesAlone
    lm: LanguageModel
    choices: Choices
    weights: NDArray[np.float64]


def make_weighted_model(
    model: Model, lm_scores: NDArray[np.float32], weights: NDArray[np.float64]
) -> WeightedModel:
    """The model under some weights.

    Args:
        model: tables and language model.
        lm_scores: see `WeightedModel`; they do not depend on the weights, so one array may serve
            several weighted models, one after the other.
        weights: the weight vector.
    """
    table, lm = model.table, model.lm
    return WeightedModel(
        rows=table.rows,
        trie=table.trie,
        node_starts=table.node_starts,
        node_rows=table.node_rows,
        reordering=model.reordering,
        lm_scores=lm_scores,
        alone=_no_phrases_alone(table.rows),
        lm=LanguageModel(
            tables=lm.tables,
            n_words=len(lm.vocabulary),
            unk_id=lm.unk_id,
            bos_id=lm.bos_id,
            eos_id=lm.eos_id,
            order=lm.order,
        ),
        choices=no_choices(table.node_starts, model.table_limit),
        weights=weights,
    )


def _no_phrases_alone(rows: TableRows) -> PhrasesAlone:
    """Room for all rows; pages that are not written cost no memory."""
    return PhrasesAlone(np.empty(len(rows.words)), np.full(len(rows.nodes), UNKNOWN_SIZE, np.int8))


def no_choices(node_starts: NDArray[np.int64], table_limit: int) -> Choices:
    """Room for the choices of all nodes; table_limit 0 keeps all rows."""
    counts = np.diff(node_starts)
    kept = np.minimum(counts, table_limit) if table_limit > 0 else counts
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    return Choices(starts, np.empty(starts[-1], np.int64), np.zeros(len(counts), np.bool_))


@inner
def lm_word(lm: LanguageModel, word: int) -> int:
    """The language model's number of a target word."""
    return word if word < lm.n_words else lm.unk_id
