"""The forms of a column: what is made of a scorer's value before it enters the log-linear model.

Each form gives a number for each row; "sum" is the value itself, log p(target | source) as in Cho et al.
(2014), section 3.1. What is left after a prediction may be above 0: its exp, which the table has, is then
above 1, and Moses takes the logarithm of that as of any other score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from moses_bridge.formats.words import split_words
from rescorer.tables.prediction import KnownOfRows, Prediction, Predictors, fit_prediction

Values = NDArray[np.float64]
Form = Callable[[KnownOfRows, Values], Values]


def the_value(known: KnownOfRows, values: Values) -> Values:
    """The value itself."""
    return values


def per_word(known: KnownOfRows, values: Values) -> Values:
    """The value divided by the number of target words plus one (</s>)."""
    n_steps = [len(split_words(target)) + 1 for target in known.targets]
    return np.asarray(values / np.array(n_steps))


def over_targets(known: KnownOfRows, values: Values) -> Values:
    """Log of p divided by its sum over the table's targets of the source.

    Args:
        known: whole groups of rows with one source each, behind one another.
        values: log p, *Shape:* (n_rows,).
    """
    sources = known.sources
    starts = [row for row in range(len(sources)) if row == 0 or sources[row] != sources[row - 1]]
    sums = np.logaddexp.reduceat(values, starts)
    return np.asarray(values - np.repeat(sums, np.diff([*starts, len(sources)])))


FORMS: dict[str, Form] = {"sum": the_value, "per-word": per_word, "over-targets": over_targets}
FITTED_FORMS: dict[str, Predictors] = {
    "length-neutral": "lengths",
    "residual": "lengths and scores",
}


def needs_fit(columns: Sequence[str]) -> bool:
    """Whether one of the columns is fitted on rows of the table."""
    return any(column in FITTED_FORMS for column in columns)


def fit_predictions(
    columns: Sequence[str], known: KnownOfRows, values: Values
) -> dict[str, Prediction]:
    """The predictions that belong to the fitted ones among some columns.

    Args:
        columns: their names.
        known: rows of the table.
        values: of the scorer, *Shape:* (n_rows,).
    """
    return {
        column: fit_prediction(FITTED_FORMS[column], known, values)
        for column in columns
        if column in FITTED_FORMS
    }


def form_of(column: str, predictions: Mapping[str, Prediction]) -> Form:
    """The form of a column; that of a fitted one is what is left after its prediction."""
    return FORMS[column] if column in FORMS else predictions[column].residual
