"""What the rows of a block get: values of scorers, forms of them, and the bytes that are written.

A block's bytes depend on nothing but its rows and the run, so a block can be scored in any process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError, UserError, shown
from moses_bridge.formats.phrase_table import (
    Block,
    alignment_column,
    append_score_columns,
    without_last_scores,
)
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.scorer import NamedScorer
from rescorer.tables.form import FORMS
from rescorer.tables.partial_file import compress
from rescorer.tables.run import LOWEST_PROB, Run

# e^88 is just below the largest float32, which Moses reads scores into.
HIGHEST_LOG = 88.0


def moses_prob(log_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is written for a value that shall enter the log-linear model: its exp, from 1e-30 to e^88.

    The limits keep clear of the denormal numbers of float32 and of its infinity.
    """
    return np.maximum(np.exp(np.minimum(log_values, HIGHEST_LOG)), LOWEST_PROB)


def floored_log(log_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for a table of logarithms: the value itself, at least log 1e-30."""
    return np.maximum(log_values, np.log(LOWEST_PROB))


@dataclass(frozen=True)
class ScoredBlock:
    """A block as it is written.

    Attributes:
        data: its rows, compressed as the table is.
        counts: its rows, and those of each column whose value was cut, by name.
    """

    data: bytes
    counts: dict[str, int]


# Scores blocks in other processes and returns them in order.
Executor = Callable[[Run, Iterator[Block]], Iterator[ScoredBlock]]


def score_block(run: Run, scorers: Sequence[NamedScorer], block: Block) -> ScoredBlock:
    """The rows of a block with their columns.

    Args:
        run: which columns.
        scorers: those of the run.
        block: some rows of its table.

    Raises:
        InputError: a row lacks what a scorer needs.
        UserError: a value is not finite.
    """
    values = _values(run, scorers, block)
    written = moses_prob if run.config.column_format == "prob" else floored_log
    lines = block.lines
    if n_replaced := run.config.n_replaced:
        lines = [without_last_scores(line, n_replaced) for line in lines]
    rows = append_score_columns(lines, written(values))
    counts = {"rows": len(block)}
    outside = (values < np.log(LOWEST_PROB)) | (values > HIGHEST_LOG)
    for column, floored in enumerate(outside.sum(axis=0)):
        counts[f"floored {column}"] = int(floored)
    return ScoredBlock(compress(rows, Path(run.out)), counts)


def _values(run: Run, scorers: Sequence[NamedScorer], block: Block) -> NDArray[np.float64]:
    """What each column adds to the log-linear model, *Shape:* (n_rows, n_columns)."""
    values = []
    for n_earlier, named in enumerate(scorers):
        own = _own_values(run, named, block)
        for column in run.config.columns:
            if column != "unknown-words":
                values.append(FORMS[column](block, own))
            elif n_earlier == 0 and named.scorer.shortlist is not None:
                n_unknown = named.scorer.shortlist.n_unknown(block.targets)
                values.append(n_unknown.astype(np.float64))
    return np.stack(values, axis=1)


def _own_values(run: Run, named: NamedScorer, block: Block) -> NDArray[np.float64]:
    """What a scorer gives for the rows of a block, *Shape:* (n_rows,)."""
    needs_links = named.scorer.needs_links
    links = [alignment_column(line) for line in block.lines] if needs_links else None
    try:
        values = named.scorer.values(Batch(block.sources, block.targets, links))
    except UnscorablePair as error:
        found = f"{error.found} of {_pair(block, error.row)}"
        # Where rows may have been left out, those of a block need not stand one after another.
        line = None if run.config.max_bad_rows else block.first_line + error.row
        raise InputError(run.path, line, found, error.expected, error.hint) from error
    strange = np.flatnonzero(~np.isfinite(values))
    if len(strange):
        row = int(strange[0])
        raise UserError(
            f"{named.name} gives {values[row]} for {_pair(block, row)}; train the model again, "
            "with a lower learning_rate"
        )
    return values


def _pair(block: Block, row: int) -> str:
    return shown(b" ||| ".join([block.sources[row], block.targets[row]]))
