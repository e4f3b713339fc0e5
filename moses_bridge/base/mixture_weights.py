"""Weights of a mixture of models that maximise the likelihood of observations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_STEPS = 10_000
SMALLEST_MOVE = 1e-8  # the search ends when no weight moves further in a step
SUM_TOLERANCE = 1e-3  # of given weights: 0.333,0.333,0.333 sum to 1
LEAST_WEIGHT = 1e-6  # with a weight of 0, observations known to one model alone would be impossible


class Observations(NamedTuple):
    """Observations under several models; a mixture gives them the probability w·values / w·masses.

    Attributes:
        values: (n, n_models) probability of each, times the mass; 0 if unknown to the model.
        masses: (n, n_models) all 1 in a plain mixture; 0 for a model not knowing the condition; the count
            of the condition where counts are added.
        counts: (n,) how often each was observed.
    """

    values: NDArray[np.float64]
    masses: NDArray[np.float64]
    counts: NDArray[np.float64]


def fitted_weights(observations: Observations) -> NDArray[np.float64]:
    """The weights that maximise sum_n counts_n log(w·values_n / w·masses_n), (n_models,); they sum to 1.

    With masses of 1 each step is one of EM (Jelinek and Mercer 1980), and the maximum is unique. Otherwise each
    step replaces the logarithm of w·masses by its tangent (an MM algorithm, like Hunter's for Bradley-Terry
    models, 2004). No step lowers the likelihood; the search begins at equal weights. Observations without a
    value above 0 are left out; at least one has such a value.
    """
    values, masses, counts = _possible(observations)
    weights = np.full(values.shape[1], 1.0 / values.shape[1])
    for _ in range(MAX_STEPS):
        gains = (counts / (values @ weights)) @ values
        costs = (counts / (masses @ weights)) @ masses
        moved = weights * np.divide(gains, costs, out=np.zeros_like(gains), where=costs > 0)
        moved /= moved.sum()
        is_end = np.abs(moved - weights).max() < SMALLEST_MOVE
        weights = moved
        if is_end:
            break
    weights = np.maximum(weights, LEAST_WEIGHT)
    return np.asarray(weights / weights.sum())


def cross_entropy(observations: Observations, weights: NDArray[np.float64]) -> float:
    """Mean of -log2(w·values / w·masses), in bits per observation known to a model, of which there is one.

    Weights are positive, *Shape:* (n_models,); only their ratios matter.
    """
    values, masses, counts = _possible(observations)
    bits = np.log2(masses @ weights) - np.log2(values @ weights)
    return float(counts @ bits / counts.sum())


def _possible(observations: Observations) -> Observations:
    known = observations.values.any(axis=1)
    if not known.any():
        raise ValueError("no model knows any of the observations")
    return Observations(*(array[known] for array in observations))
