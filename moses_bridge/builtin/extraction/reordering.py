"""Lexicalised reordering, type wbe-msd-bidirectional-fe."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.extraction.pair_counts import PairCounts

SMOOTHING = 0.5  # the default of train-model.perl for lexical-reordering-score


def reordering_probs(pairs: PairCounts) -> NDArray[np.float64]:
    """(n_pairs, 6) probabilities of monotone, swap, other: towards the phrase before, then after.

    Relative frequencies with 0.5 added to each count, as `lexical-reordering-score` of Moses does
    (Koehn et al., "Edinburgh System Description", IWSLT 2005).
    """
    return np.concatenate((_smoothed(pairs.previous), _smoothed(pairs.next)), axis=1)


def _smoothed(counts: NDArray[np.int32]) -> NDArray[np.float64]:
    raised = counts + SMOOTHING
    probs: NDArray[np.float64] = raised / raised.sum(axis=1, keepdims=True)
    return probs
