"""The columns to add to a table, and their forms: functions applied to a scorer's values.

Moses takes the natural logarithm of each dense score of a text table, floors it at -100, and silently turns
a negative score into NaN (moses/TranslationModel/RuleTable/LoaderStandard.cpp, lines 199-205). So a column
holds exp of the value intended for the log-linear model.

Each form takes a block of rows and their values, (n_rows,), and returns new values of the same shape. "sum" is
the value itself, log p(target | source) as in Cho et al. (2014), section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from moses_bridge.formats.phrase_table import Block
from moses_bridge.formats.words import split_words
from rescorer.contract.choices import ColumnFormat
from rescorer.contract.scorer import NamedScorer
from rescorer.tables.source_table import Shard

Values = NDArray[np.float64]
Form = Callable[[Block, Values], Values]
Column = Literal["sum", "per-word", "over-targets", "unknown-words"]
# Columns made by earlier versions only; an old TABLE.json may name them.
FORMER_COLUMNS = ("length-neutral", "residual")


@dataclass(frozen=True)
class ColumnConfig:
    """Settings of the columns to add.

    Attributes:
        columns: for each scorer: "sum" is its value, log p(target | source), "per-word" the same
            divided by the number of target words plus one (</s>), "over-targets" log of p divided
            by its sum over the table's targets of the source, "unknown-words" the number of target
            words outside the shortlist (of the first scorer only, since models of one table share
            it).
        column_format: "prob" for Moses and its converters, since they take the logarithm; "log" for
            a table of logarithms (ProbingPT without --log-prob).
        n_replaced: number of last scores of each row to remove first.
        block_rows: rows scored together; the result does not depend on it (to 1e-5).
        jobs: blocks scored at a time, each on one processor.
        max_bad_rows: largest number of malformed rows to leave out.
        shard: the part of the table to score; None for all of it.
    """

    columns: tuple[Column, ...] = ("sum",)
    column_format: ColumnFormat = "prob"
    n_replaced: int = 0
    block_rows: int = 8192
    jobs: int = 1
    max_bad_rows: int = 0
    shard: Shard | None = None

    def of_scorers(self, names: Sequence[str]) -> tuple[tuple[Column, str], ...]:
        """The added columns in their order, each with the name of its scorer."""
        return tuple(
            (column, name)
            for n_earlier, name in enumerate(names)
            for column in self.columns
            if column != "unknown-words" or n_earlier == 0
        )


def check_columns(scorers: Sequence[NamedScorer], config: ColumnConfig) -> None:
    """Refuse columns that cannot be made.

    Raises:
        ConfigError: there is no column, one is named twice, or unknown words cannot be counted.
    """
    if len(set(config.columns)) < len(config.columns):
        raise ConfigError(f"a column is named twice: {', '.join(config.columns)}")
    if not scorers or not config.columns:
        raise ConfigError("no column to add: name a model or a control, and at least one column")
    if "unknown-words" in config.columns and scorers[0].scorer.shortlist is None:
        raise ConfigError(
            f"{scorers[0].name} has no shortlist, so no unknown words: leave unknown-words out"
        )


def parse_columns(names: str) -> tuple[Column, ...]:
    """Parse names of columns joined by commas, like "sum,per-word"; ConfigError if a name is not a column's."""
    known = get_args(Column)
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            fault = f"no column {name!r}" + (" any more" if name in FORMER_COLUMNS else "")
            raise ConfigError(f"{fault}; there are {', '.join(known)}")
    return tuple(cast(Column, name) for name in wanted)


def unchanged(rows: Block, values: Values) -> Values:
    """The value itself."""
    return values


def per_word(rows: Block, values: Values) -> Values:
    """The value divided by the number of target words plus one (</s>)."""
    n_steps = [len(split_words(target)) + 1 for target in rows.targets]
    return np.asarray(values / np.array(n_steps))


def over_targets(rows: Block, values: Values) -> Values:
    """Log of p divided by its sum over the table's targets of the source; rows holds whole sources."""
    sources = rows.sources
    starts = [row for row in range(len(sources)) if row == 0 or sources[row] != sources[row - 1]]
    sums = np.logaddexp.reduceat(values, starts)
    return np.asarray(values - np.repeat(sums, np.diff([*starts, len(sources)])))


FORMS: dict[str, Form] = {"sum": unchanged, "per-word": per_word, "over-targets": over_targets}
