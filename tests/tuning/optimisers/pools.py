"""Small pools for the tests of several optimisers."""

from __future__ import annotations

import numpy as np

from tuning.optimisers.nbest_pool import NBestPool, make_pool

RIGHT, WRONG = [6, 6, 5, 5, 4, 4, 3, 3, 6], [3, 6, 1, 5, 1, 4, 1, 3, 6]


def random_pool(seed: int, n_sentences: int = 5, n_features: int = 3) -> NBestPool:
    """Few distinct values, so ties, equal slopes, single hypotheses and constant columns occur."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, n_sentences)
    n = int(sizes.sum())
    features = rng.integers(-3, 4, (n, n_features)).astype(float)
    totals = np.maximum(rng.integers(6, 10, (n, 1)) - np.arange(4), 1)
    matches = rng.integers(1, totals + 1)
    statistics = np.empty((n, 9), np.int32)
    statistics[:, 0:-1:2], statistics[:, 1:-1:2] = matches, totals
    statistics[:, -1] = rng.integers(6, 10, n)
    names = tuple(f"F{i}_0" for i in range(n_features))
    return make_pool(names, np.repeat(np.arange(n_sentences) * 2, sizes), features, statistics)


def pool_of_choices(n_sentences: int) -> NBestPool:
    """In each sentence a right hypothesis with a high A and a wrong one with a high B; C is constant."""
    rng = np.random.default_rng(1)
    features = np.empty((2 * n_sentences, 3))
    features[0::2] = rng.normal((1.0, -1.0, 0), 0.5, (n_sentences, 3))
    features[1::2] = rng.normal((-1.0, 1.0, 0), 0.5, (n_sentences, 3))
    features[:, 2] = 2.0
    statistics = np.tile(np.array([RIGHT, WRONG], np.int32), (n_sentences, 1))
    ids = np.repeat(np.arange(n_sentences), 2)
    return make_pool(("A_0", "B_0", "C_0"), ids, features, statistics)
