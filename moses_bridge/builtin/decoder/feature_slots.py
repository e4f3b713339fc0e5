"""The order of features and weights in the decoder's vectors.

It may differ from the order of the ini; `feature_slices` gives the position of each feature of an ini. The
features of fixed size are followed by the scores of the decoding paths' phrase tables and groups of tables,
those of the tables in groups, whose values are 0, the weighted sum of all sparse values if there are any, and
all language models but the first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

REORDERING = 0
N_REORDERING = 6
DISTORTION = 6
LANGUAGE_MODEL = 7
UNKNOWN_TO_MODEL = 8  # words unknown to the first language model: its second score (oov-feature)
WORD_PENALTY = 9
PHRASE_PENALTY = 10
UNKNOWN_WORD = 11
PHRASE_TABLE = 12

Vector = NDArray[np.float64]
