"""A model with weights, in the form for compiled code: tables, language model, weights."""

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
    """The language model in the form for the search.

    Attributes:
        tables: tables of its `LmIndex`.
        n_words: size of its vocabulary; it does not know target words from this number on.
        unk_id, bos_id, eos_id: numbers of <unk>, <s> and </s>.
        order: its order.
    """

    tables: LmTables
    n_words: int
    unk_id: int
    bos_id: int
    eos_id: int
    order: int


class Choices(NamedTuple):
    """The best rows of each source phrase under the weights, filled when first needed.

    Attributes:
        starts: (n_nodes + 1,) int64; node i's rows are rows[starts[i]:starts[i + 1]], best first.
        rows: int64, numbers of rows.
        done: (n_nodes,) bool, whether the node's rows have been chosen.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    done: NDArray[np.bool_]


class PhrasesAlone(NamedTuple):
    """The language model's values of rows without context, filled when first needed.

    Attributes:
        word_log10s: float64, log10 probability of each of `TableRows.words`.
        context_sizes: (n_rows,) int8, number of words of language model context after the row; UNKNOWN_SIZE
            if not yet computed.
    """

    word_log10s: NDArray[np.float64]
    context_sizes: NDArray[np.int8]


class WeightedModel(NamedTuple):
    """Tables and weights for making translation options, common to all sentences.

    Attributes:
        rows, trie, node_starts, node_rows: see `LoadedTable`.
        reordering: (n_rows, 6) natural logarithms.
        lm_scores: (n_rows,) float32, log10 probability of a row's target words without context, NaN if not
            yet computed.
        alone: the same, word by word.
        lm: the language model.
        choices: the rows kept for each source phrase.
        weights: the weight vector.
        early_distortion: whether jumps cost what `early_cost` says.
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
    early_distortion: bool


def make_weighted_model(
    model: Model, lm_scores: NDArray[np.float32], weights: NDArray[np.float64]
) -> WeightedModel:
    """Combine a model with weights.

    Args:
        model: tables and language model.
        lm_scores: see `WeightedModel`; they do not depend on the weights, so several weighted models can
            share one array, one after the other.
        weights: (n_features,) the weight vector.
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
        early_distortion=model.values.early_distortion,
    )


def _no_phrases_alone(rows: TableRows) -> PhrasesAlone:
    """Arrays for all rows; unwritten pages need no memory."""
    return PhrasesAlone(np.empty(len(rows.words)), np.full(len(rows.nodes), UNKNOWN_SIZE, np.int8))


def no_choices(node_starts: NDArray[np.int64], table_limit: int) -> Choices:
    """Empty arrays for the choices of all nodes; table_limit 0 keeps all rows.

    Args:
        node_starts: (n_nodes + 1,), see `LoadedTable`.
        table_limit: largest number of rows to choose for a node.
    """
    counts = np.diff(node_starts)
    kept = np.minimum(counts, table_limit) if table_limit > 0 else counts
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    return Choices(starts, np.empty(starts[-1], np.int64), np.zeros(len(counts), np.bool_))


@inner
def lm_word(lm: LanguageModel, word: int) -> int:
    """The language model's number of a target word."""
    return word if word < lm.n_words else lm.unk_id
