"""Tuning as ranking: the line searches towards what was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tuning.bleu_stats import bleu
from tuning.bounds import Bounds
from tuning.kbmira import optimize_kbmira
from tuning.nbest_pool import NBestPool, make_pool
from tuning.pro import _best_between, _interpolate, optimize_pro

if TYPE_CHECKING:
    pass

RIGHT = [6, 6, 5, 5, 4, 4, 3, 3, 6]
NO_BOUNDS = np.full(2, -np.inf), np.full(2, np.inf)
WRONG = [3, 6, 1, 5, 1, 4, 1, 3, 6]
BOTH = pytest.mark.parametrize("optimize", [optimize_kbmira, optimize_pro])


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


def test_sweeps_towards_learned_weights_never_lose_bleu() -> None:
    pool = pool_of_choices(40)
    start, targets = np.array([-0.5, 0.5, 0.0]), [np.array([0.4, 0.9, 0]), np.array([-0.1, -1, 0])]
    bounds = Bounds.of(pool.names, [])
    weights, trace = _interpolate(pool, start, targets, bounds, 0.0)
    singles = [pool.statistics_of(_best_between(pool, start, target, bounds)) for target in targets]
    assert trace == sorted(trace)
    assert trace[-1] == pytest.approx(float(bleu(pool.statistics_of(weights))))
    assert trace[-1] >= bleu(np.array(singles)).max()
