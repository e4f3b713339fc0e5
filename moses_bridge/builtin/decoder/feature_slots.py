"""The order of features and weights in the decoder's vectors.

It may differ from that of the ini; `model.feature_slices` gives the position of each feature of an ini. The
phrase table comes last, since its number of scores varies.
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
