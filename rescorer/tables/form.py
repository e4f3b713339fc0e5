"""The forms of a column: functions applied to a scorer's values before the log-linear model.

Each form takes a block of rows and their values, (n_rows,), and returns new values of the same shape. "sum" is
the value itself, log p(target | source) as in Cho et al. (2014), section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from moses_bridge.formats.phrase_table import Block
from moses_bridge.formats.words import split_words

Values = NDArray[np.float64]
Form = Callable[[Block, Values], Values]


def the_value(rows: Block, values: Values) -> Values:
    """The value itself."""
    return values


def per_word(rows: Block, values: Values) -> Values:
    """The value divided by the number of target words plus one (</s>)."""
    n_steps = [len(split_words(target)) + 1 for target in rows.targets]
    return np.asarray(values / np.array(n_steps))


def over_targets(rows: Block, values: Values) -> Values:
    """Log of p divided by its sum over the table's targets of the source.

    Args:
        rows: all rows of each source, one source after the other.
        values: log p, *Shape:* (n_rows,).
    """
    sources = rows.sources
    starts = [row for row in range(len(sources)) if row == 0 or sources[row] != sources[row - 1]]
    sums = np.logaddexp.reduceat(values, starts)
    return np.asarray(values - np.repeat(sums, np.diff([*starts, len(sources)])))


FORMS: dict[str, Form] = {"sum": the_value, "per-word": per_word, "over-targets": over_targets}
