"""What a scorer's value is expected to be, from what the table knows already: least squares over its rows.

With n words of the source and m of the target the prediction is

    v' = a + b n + c m + d[n, m]                                                            (lengths)
    v' = the same + e log p(t | s) + f log lex(t | s) + g log lex(s | t)         (lengths and scores)

with a number d for each pair of lengths (LONGEST stands for all longer ones). The coefficients minimise
the sum of (v - v')^2 over rows plus SHRINKAGE times the sum of d^2, so a pair of lengths that few rows have
follows the straight line (ridge regression: Hoerl & Kennard 1970).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moses_bridge.formats.words import split_words

Predictors = Literal["lengths", "lengths and scores"]
LONGEST = 7  # words of a phrase; the limit of Moses's extraction
SHRINKAGE = 10.0  # in rows: a pair of lengths with so many counts half
# Columns of Moses's tables: p(s | t), lex(s | t), p(t | s), lex(t | s).
SCORES = {"log p(t | s)": 2, "log lex(t | s)": 3, "log lex(s | t)": 1}
N_SCORES = 4


@dataclass(frozen=True)
class KnownOfRows:
    """What rows of a table tell beside a scorer's value.

    Attributes:
        sources: source phrases.
        targets: target phrases.
        log_scores: natural log of their dense scores, *Shape:* (n_rows, n_scores).
    """

    sources: Sequence[bytes]
    targets: Sequence[bytes]
    log_scores: NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """A fitted prediction.

    Attributes:
        predictors: what it goes by.
        coefficients: by name; "d[2, 3]" is that of phrases of 2 and 3 words.
        n_rows: that it was fitted on.
        explained: share of the variance of the values that it explains on them, at most 1.
    """

    predictors: Predictors
    coefficients: Mapping[str, float]
    n_rows: int
    explained: float

    def residual(self, known: KnownOfRows, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is left of values, *Shape:* (n_rows,)."""
        names = _names(self.predictors)
        coefficients = np.array([self.coefficients[name] for name in names])
        return np.asarray(values - _design(known, self.predictors) @ coefficients)


def fit_prediction(
    predictors: Predictors, known: KnownOfRows, values: NDArray[np.float64]
) -> Prediction:
    """The prediction that fits values best.

    Args:
        predictors: what it goes by.
        known: the rows.
        values: of a scorer, *Shape:* (n_rows,).
    """
    design, names = _design(known, predictors), _names(predictors)
    is_cell = np.array([name.startswith("d[") for name in names])
    penalty = np.diag(np.sqrt(SHRINKAGE) * is_cell)[is_cell]
    rows = np.concatenate([design, penalty])
    wanted = np.concatenate([values, np.zeros(len(penalty))])
    found = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    left, total = (values - design @ found).var(), values.var()
    explained = float(1 - left / total) if total > 0 else 1.0
    coefficients = dict(zip(names, found.tolist(), strict=True))
    return Prediction(predictors, coefficients, len(values), explained)


def _names(predictors: Predictors) -> list[str]:
    lengths = range(1, LONGEST + 1)
    cells = [f"d[{n}, {m}]" for n in lengths for m in lengths]
    scores = [*SCORES] if predictors == "lengths and scores" else []
    return ["constant", "source words", "target words", *scores, *cells]


def _design(known: KnownOfRows, predictors: Predictors) -> NDArray[np.float64]:
    """The predictors of each row, *Shape:* (n_rows, n_predictors)."""
    n = np.array([len(split_words(text)) for text in known.sources])
    m = np.array([len(split_words(text)) for text in known.targets])
    columns = [np.ones(len(n)), n, m]
    if predictors == "lengths and scores":
        columns += [known.log_scores[:, place] for place in SCORES.values()]
    cells = np.zeros((len(n), LONGEST * LONGEST))
    # An empty phrase, which only a hand-made table has, counts as one of a single word.
    places = [np.clip(count, 1, LONGEST) - 1 for count in (n, m)]
    cells[np.arange(len(n)), places[0] * LONGEST + places[1]] = 1.0
    return np.column_stack([*columns, cells]).astype(np.float64)
