"""What every optimiser takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

import numpy as np
from numpy.typing import NDArray

from moses_bridge.config import AtLeast, check_limits
from moses_bridge.errors import ConfigError
from tuning.optimisers.bounds import Bounds
from tuning.pools.bleu_stats import bleu
from tuning.pools.nbest_pool import NBestPool


@dataclass(frozen=True)
class OptimizerConfig:
    """Settings of the optimisers; kbmira and xbleu use `frozen` and `bounds` alone, PRO `min_gain` too.

    Attributes:
        n_restarts: random starting points beside the given ones; where they times the hypotheses of the
            pool are fewer than small_pool_work, there are more.
        small_pool_work: see n_restarts.
        n_directions: random directions beside the axes, drawn anew for each round of restarts.
        min_gain: a sweep that gains less BLEU (0 to 100) ends the search.
        frozen: names of features whose weight stays.
        bounds: least and greatest weights, like "LM0_0:0..1". They hold for the weights as the start has
            them scaled, so weights are not normalised then.
    """

    n_restarts: Annotated[int, AtLeast(0)] = 20
    small_pool_work: Annotated[int, AtLeast(0)] = 400_000
    n_directions: Annotated[int, AtLeast(0)] = 14
    min_gain: float = 0.005
    frozen: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_limits(self)


@dataclass(frozen=True)
class OptimizerResult:
    """Weights and how they came about.

    Attributes:
        weights: by column name, absolute values adding up to 1, or within the bounds where there are any.
        bleu: of the pool's best hypotheses under the weights, 0 to 100.
        restarts: the BLEU that each starting point led to.
        trace: BLEU of the best search after each of its rounds, its start first.
        frozen: columns that were left alone, wanted so or constant.
    """

    weights: dict[str, float]
    bleu: float
    restarts: tuple[float, ...] = ()
    trace: tuple[float, ...] = ()
    frozen: tuple[str, ...] = field(default_factory=tuple)


class Optimizer(Protocol):
    """Weights with a high BLEU on a pool."""

    def __call__(
        self,
        pool: NBestPool,
        starts: NDArray[np.float64],
        config: OptimizerConfig,
        seed: int,
        jobs: int,
    ) -> OptimizerResult:
        """Optimise.

        Args:
            pool: the hypotheses.
            starts: starting points, the current weights first, *Shape:* (n_starts, n_features).
            config: settings.
            seed: the same seed gives the same weights, with any number of jobs.
            jobs: threads.
        """


def result_of(
    pool: NBestPool,
    weights: NDArray[np.float64],
    free: NDArray[np.bool_],
    bounds: Bounds,
    restarts: Sequence[float],
    trace: Sequence[float],
) -> OptimizerResult:
    """The result with these weights, by name, and their BLEU on the pool."""
    unit = bounds.scaled(weights, 1.0)
    return OptimizerResult(
        weights=dict(zip(pool.names, map(float, unit), strict=True)),
        bleu=float(bleu(pool.statistics_of(unit))),
        restarts=tuple(restarts),
        trace=tuple(trace),
        frozen=tuple(name for name, moves in zip(pool.names, free, strict=True) if not moves),
    )


def free_columns(pool: NBestPool, config: OptimizerConfig) -> NDArray[np.bool_]:
    """Columns that may move: neither frozen nor constant within every sentence.

    Raises:
        ConfigError: a frozen name is no column.
    """
    for name in config.frozen:
        if name not in pool.names:
            raise ConfigError(f"no feature {name} to freeze; there are {', '.join(pool.names)}")
    wanted = np.array([name not in config.frozen for name in pool.names])
    return np.asarray(wanted & ~pool.constant)
