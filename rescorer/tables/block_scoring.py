"""The new columns of a block: the scorers' values, their forms, and the bytes to write.

A block's bytes depend only on its rows and the run, so a block can be scored in any process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError, shown
from moses_bridge.formats.phrase_table import (
    Block,
    alignment_column,
    append_score_columns,
    without_last_scores,
)
from rescorer.contract.batch import Batch
from rescorer.contract.scorer import NamedScorer
from rescorer.tables.column import FORMS
from rescorer.tables.pair_values import answered, not_finite
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
    limits of what is written: `moses_prob` or `floored_log`. The errors are those of values that a scorer
    could not give.
    """

    data: bytes
    counts: dict[str, int]
    bad: list[InputError] = field(default_factory=list)


# Scores the blocks of a run and yields them in order.
Executor = Callable[[RunRecord, Iterator[Block]], Iterator[ScoredBlock]]


def score_block(run: RunRecord, scorers: Sequence[NamedScorer], block: Block) -> ScoredBlock:
    """Score a block of the run's table and append the columns to its rows.

    A row that a scorer cannot score has the least value of its source, or else of the block.
    """
    values, bad = _values(run, scorers, block)
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
    return ScoredBlock(compress(rows, Path(run.out)), counts, bad)


def _values(
    run: RunRecord, scorers: Sequence[NamedScorer], block: Block
) -> tuple[NDArray[np.float64], list[InputError]]:
    """The value of each column in the log-linear model, *Shape:* (n_rows, n_columns), and errors."""
    forms = [FORMS.get(column) for column in run.config.columns]  # None counts unknown words
    values, bad = [], list[InputError]()
    for n_earlier, named in enumerate(scorers):
        own, faults = _scorer_values(run, named, block) if any(forms) else (np.empty(0), {})
        bad += faults.values()
        for form in forms:
            if form is not None:
                values.append(_with_least(form(block, own), block.sources, faults))
            elif n_earlier == 0 and named.scorer.shortlist is not None:
                n_unknown = named.scorer.shortlist.n_unknown(block.targets)
                values.append(n_unknown.astype(np.float64))
    return np.stack(values, axis=1), bad


def _scorer_values(
    run: RunRecord, named: NamedScorer, block: Block
) -> tuple[NDArray[np.float64], dict[int, InputError]]:
    """A scorer's values of the rows of a block, *Shape:* (n_rows,), and errors of rows without one."""
    needs_links = named.scorer.needs_links
    links = [alignment_column(line) for line in block.lines] if needs_links else None
    batch, most = Batch(block.sources, block.targets, links), run.config.max_bad_rows
    values, bad = np.full(len(block), -1 / LOWEST_PROB), dict[int, InputError]()
    found_values, rows, faults = answered(named.scorer.values, batch, most)
    if found_values is not None:
        values[rows] = found_values
    for row in np.flatnonzero(~np.isfinite(values)).tolist():
        faults[row] = not_finite(row, batch, values[row])
        values[row] = -1 / LOWEST_PROB
    for row, fault in sorted(faults.items()):
        found = f"{fault.found} of {shown(b' ||| '.join([block.sources[row], block.targets[row]]))}"
        # If rows may have been left out, the rows of a block need not be consecutive.
        line = None if most else block.first_line + row
        hint = f"{fault.hint} ({named.name}); with --skip-bad N such rows get the least of their source"
        bad[row] = InputError(run.path, line, found, fault.expected, hint)
    return values, bad


def _with_least(
    values: NDArray[np.float64], sources: Sequence[bytes], bad: Collection[int]
) -> NDArray[np.float64]:
    """The values with the least of its source, or else of all sources, in each bad row."""
    least = dict[bytes, float]()
    for row, source in enumerate(sources) if bad else ():
        if row not in bad:
            least[source] = min(values[row], least.get(source, np.inf))
    lowest = min(least.values(), default=np.log(LOWEST_PROB))
    for row in bad:
        values[row] = least.get(sources[row], lowest)
    return values
