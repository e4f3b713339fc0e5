"""The new columns of a block: the scorers' values, their forms, and the bytes to write.

A block's bytes depend only on its rows and the run, so a block can be scored in any process.
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
from rescorer.tables.column import FORMS
from rescorer.tables.partial_file import compress
from rescorer.tables.record import LOWEST_PROB, RunRecord

# e^88 is just below the largest float32; Moses reads scores as float32.
HIGHEST_LOG = 88.0


def moses_prob(log_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probabilities to write: exp of natural logarithms, from 1e-30 to e^88, *Shape:* kept.

    The limits avoid the denormal numbers of float32 and its infinity.
    """
    return np.maximum(np.exp(np.minimum(log_values, HIGHEST_LOG)), LOWEST_PROB)


def floored_log(log_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The numbers to write into a table of logarithms: the values themselves, at least log 1e-30."""
    return np.maximum(log_values, np.log(LOWEST_PROB))


@dataclass(frozen=True)
class ScoredBlock:
    """The rows of a scored block, compressed like the table.

    The counts are "rows", and "floored 0", "floored 1", ..., the number of values of each column outside the
    limits of what is written: `moses_prob` or `floored_log`.
    """

    data: bytes
    counts: dict[str, int]


# Scores the blocks of a run and yields them in order.
Executor = Callable[[RunRecord, Iterator[Block]], Iterator[ScoredBlock]]


def score_block(run: RunRecord, scorers: Sequence[NamedScorer], block: Block) -> ScoredBlock:
    """Score a block of the run's table and append the columns to its rows.

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
    outside = values < np.log(LOWEST_PROB)
    if written is moses_prob:
        outside |= values > HIGHEST_LOG
    for column, floored in enumerate(outside.sum(axis=0)):
        counts[f"floored {column}"] = int(floored)
    return ScoredBlock(compress(rows, Path(run.out)), counts)


def _values(run: RunRecord, scorers: Sequence[NamedScorer], block: Block) -> NDArray[np.float64]:
    """The value of each column in the log-linear model, *Shape:* (n_rows, n_columns)."""
    forms = [FORMS.get(column) for column in run.config.columns]  # None counts unknown words
    values = []
    for n_earlier, named in enumerate(scorers):
        own = _scorer_values(run, named, block) if any(forms) else np.empty(0)
        for form in forms:
            if form is not None:
                values.append(form(block, own))
            elif n_earlier == 0 and named.scorer.shortlist is not None:
                n_unknown = named.scorer.shortlist.n_unknown(block.targets)
                values.append(n_unknown.astype(np.float64))
    return np.stack(values, axis=1)


def _scorer_values(run: RunRecord, named: NamedScorer, block: Block) -> NDArray[np.float64]:
    """A scorer's values of the rows of a block, *Shape:* (n_rows,)."""
    needs_links = named.scorer.needs_links
    links = [alignment_column(line) for line in block.lines] if needs_links else None
    try:
        values = named.scorer.values(Batch(block.sources, block.targets, links))
    except UnscorablePair as error:
        found = f"{error.found} of {_pair(block, error.row)}"
        # If rows may have been left out, the rows of a block need not be consecutive.
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
