"""What the rows of a block get: values of scorers, forms of them, and the bytes that are written.

A block's bytes depend on nothing but its rows and what is said here, so a block can be scored in any process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError, UserError, shown
from moses_bridge.formats.phrase_table import (
    Block,
    alignment_column,
    append_score_columns,
    score_matrix,
    without_last_scores,
)
from rescorer.contract.scorer import Batch, NamedScorer, Scorer, UnfitPair
from rescorer.tables.form import FITTED_FORMS, form_of
from rescorer.tables.partial_file import compress
from rescorer.tables.prediction import N_SCORES, KnownOfRows, Prediction
from rescorer.tables.report import LOWEST_PROB, Column, ColumnFormat

# By the name of the scorer and of the column.
Predictions = Mapping[str, Mapping[str, Prediction]]
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


@dataclass(frozen=True)
class BlockScoring:
    """How blocks of a table are scored, whoever scores them.

    Attributes:
        path: of the table.
        has_all_rows: whether the rows of a block stand one after another, none left out.
        columns: see `column.ColumnConfig`; so are the next two.
        column_format: of what is written.
        n_replaced: scores that are taken off before.
        predictions: of fitted forms.
        out: the table to write.
    """

    path: str
    has_all_rows: bool
    columns: tuple[Column, ...]
    column_format: ColumnFormat
    n_replaced: int
    predictions: Predictions
    out: Path

    def scored(self, scorers: Sequence[NamedScorer], block: Block) -> ScoredBlock:
        """The rows with their columns.

        Raises:
            InputError: a row lacks what a scorer needs.
            UserError: a value is not finite.
        """
        values = self._values(scorers, block)
        written = moses_prob if self.column_format == "prob" else floored_log
        rows = append_score_columns(self._old_lines(block), written(values))
        counts = {"rows": len(block)}
        outside = (values < np.log(LOWEST_PROB)) | (values > HIGHEST_LOG)
        for column, floored in enumerate(outside.sum(axis=0)):
            counts[f"floored {column}"] = int(floored)
        return ScoredBlock(compress(rows, self.out), counts)

    def _old_lines(self, block: Block) -> list[bytes]:
        if not self.n_replaced:
            return block.lines
        return [without_last_scores(line, self.n_replaced) for line in block.lines]

    def _values(self, scorers: Sequence[NamedScorer], block: Block) -> NDArray[np.float64]:
        """What each column adds to the log-linear model, *Shape:* (n_rows, n_columns)."""
        known = known_of_rows(block, self.columns, self.column_format)
        first_line = block.first_line if self.has_all_rows else None
        values = []
        for n_earlier, named in enumerate(scorers):
            own = own_values(block, named, self.path, first_line)
            for column in self.columns:
                if column != "unknown-words":
                    values.append(form_of(column, self.predictions[named.name])(known, own))
                elif n_earlier == 0 and named.scorer.shortlist is not None:
                    n_unknown = named.scorer.shortlist.n_unknown(block.targets)
                    values.append(n_unknown.astype(np.float64))
        return np.stack(values, axis=1)


# Scores blocks somewhere else than here, and gives them back in their order.
Elsewhere = Callable[[BlockScoring, Iterator[Block]], Iterator[ScoredBlock]]


def known_of_rows(
    block: Block, columns: Sequence[Column], column_format: ColumnFormat
) -> KnownOfRows:
    """What the forms of columns may go by; scores are read only where a prediction needs them."""
    if not needs_scores(columns):
        return KnownOfRows(block.sources, block.targets, np.empty((len(block), 0)))
    scores = score_matrix(block.lines, N_SCORES)
    logs = scores if column_format == "log" else np.log(np.maximum(scores, LOWEST_PROB))
    return KnownOfRows(block.sources, block.targets, logs)


def needs_scores(columns: Sequence[Column]) -> bool:
    """Whether a column is what is left after a prediction from the table's own scores."""
    return any(FITTED_FORMS.get(column) == "lengths and scores" for column in columns)


def own_values(
    block: Block, named: NamedScorer, path: str, first_line: int | None
) -> NDArray[np.float64]:
    """What a scorer gives for the rows of a block, *Shape:* (n_rows,).

    Args:
        block: rows of the table.
        named: the scorer.
        path: of the table.
        first_line: number of the first row; None where they do not stand one after another.

    Raises:
        InputError: a row lacks what the scorer needs.
        UserError: a value is not finite.
    """
    try:
        values = named.scorer.values(_batch(block, named.scorer))
    except UnfitPair as error:
        pair = shown(b" ||| ".join([block.sources[error.row], block.targets[error.row]]))
        found = f"{error.found} of {pair}"
        line = None if first_line is None else first_line + error.row
        raise InputError(path, line, found, error.expected, error.hint) from error
    _check_finite(values, named, block)
    return values


def _batch(block: Block, scorer: Scorer) -> Batch:
    links = [alignment_column(line) for line in block.lines] if scorer.needs_links else None
    return Batch(block.sources, block.targets, links)


def _check_finite(values: NDArray[np.float64], named: NamedScorer, block: Block) -> None:
    strange = np.flatnonzero(~np.isfinite(values))
    if len(strange):
        row = int(strange[0])
        pair = shown(b" ||| ".join([block.sources[row], block.targets[row]]))
        raise UserError(
            f"{named.name} gives {values[row]} for {pair}; train the model again, "
            "with a lower learning_rate"
        )
