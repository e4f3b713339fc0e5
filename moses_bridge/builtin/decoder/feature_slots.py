"""The one order in which the decoder keeps its features and their weights.

It need not be that of the ini: `model.feature_slices` tells where each feature of an ini stands. The
phrase table comes last, since the number of its scores differs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

REORDERING = 0
N_REORDERING = 6
DISTORTION = 6
LANGUAGE_MODEL = 7
WORD_PENALTY = 8
PHRASE_PENALTY = 9
UNKNOWN_WORD = 10
PHRASE_TABLE = 11

Vector = NDArray[np.float64]


def n_features(n_table_scores: int) -> int:
    """Length of a vector of features or weights."""
    return PHRASE_TABLE + n_table_scores
