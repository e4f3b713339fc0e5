"""The arguments and results of all optimisers, and the box of weights that they stay in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.config import AtLeast, Limited
from moses_bridge.base.errors import ConfigError
from tuning.optimisers.nbest_pool import NBestPool


@dataclass(frozen=True)
class MertConfig(Limited):
    """Settings of minimum error rate training.

    Attributes:
        n_restarts: number of random starting points beside the given ones. There are more where n_restarts
            times the number of hypotheses in the pool is below small_pool_work.
        small_pool_work: see n_restarts.
        n_directions: number of random directions beside the axes, drawn anew for each round of restarts.
        min_gain: a sweep gaining less BLEU (0 to 100), or less of another metric, ends a climb.
    """

    n_restarts: Annotated[int, AtLeast(0)] = 20
    small_pool_work: Annotated[int, AtLeast(0)] = 400_000
    n_directions: Annotated[int, AtLeast(0)] = 14
    min_gain: float = 0.005


@dataclass(frozen=True)
class ProConfig:
    """Settings of pairwise ranking optimisation.

    Attributes:
        min_gain: a sweep gaining less BLEU (0 to 100), or less of another metric, ends the search.
    """

    min_gain: float = 0.005


@dataclass(frozen=True)
class OptimizerConfig:
    """Settings shared by all optimisers, and a table for each one with more.

    Attributes:
        frozen: names of columns whose weight is kept, like "LM0_0". Batch MIRA learns the others on a scale of
            its own, beside which a weight other than 0 loses its share.
        bounds: least and greatest weights, like "LM0_0:0..1". They refer to weights on the scale of the
            start, so weights with bounds are not normalised.
        mert: settings of MERT alone.
        pro: settings of PRO alone.
    """

    frozen: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    mert: MertConfig = field(default_factory=MertConfig)
    pro: ProConfig = field(default_factory=ProConfig)


@dataclass(frozen=True)
class OptimizerResult:
    """Weights and how they were found.

    Attributes:
        weights: by column name; their absolute values sum to 1 unless there are bounds.
        bleu: BLEU (0 to 100) of the pool's best hypotheses under the weights; the value of the pool's metric
            if that is another one, as in the next two.
        restarts: BLEU reached from each starting point.
        trace: BLEU of the best search at its start and after each of its rounds.
        frozen: columns whose weight was kept: frozen by the settings, or constant in every sentence.
    """

    weights: dict[str, float]
    bleu: float
    restarts: tuple[float, ...] = ()
    trace: tuple[float, ...] = ()
    frozen: tuple[str, ...] = field(default_factory=tuple)


class Optimizer(Protocol):
    """Weights with a good metric on a pool."""

    def __call__(
        self,
        pool: NBestPool,
        starts: NDArray[np.float64],
        config: OptimizerConfig,
        seed: int,
        jobs: int,
    ) -> OptimizerResult:
        """Optimise from the starts, the current weights first, *Shape:* (n_starts, n_features).

        The same seed gives the same weights, with any number of jobs, which are threads.
        """


def result_of(
    pool: NBestPool,
    weights: NDArray[np.float64],
    free: NDArray[np.bool_],
    bounds: Bounds,
    restarts: Sequence[float],
    trace: Sequence[float],
) -> OptimizerResult:
    """The result with these weights by name, *Shape:* (n_features,), and their metric on the pool.

    `free` are the columns that moved; the restarts and the rounds of the best search, `trace`, are given by
    their `NBestPool.goodness`.
    """
    unit = bounds.scaled(weights, 1.0)
    sign = pool.metric.sign
    return OptimizerResult(
        weights=dict(zip(pool.names, map(float, unit), strict=True)),
        bleu=sign * pool.goodness(unit),
        restarts=tuple(sign * each for each in restarts),
        trace=tuple(sign * each for each in trace),
        frozen=tuple(name for name, moves in zip(pool.names, free, strict=True) if not moves),
    )


def free_columns(pool: NBestPool, config: OptimizerConfig) -> NDArray[np.bool_]:
    """Columns neither frozen nor constant within every sentence; ConfigError if a frozen name is no column."""
    for name in config.frozen:
        if name not in pool.names:
            raise ConfigError(f"no feature {name} to freeze; there are {', '.join(pool.names)}")
    wanted = np.array([name not in config.frozen for name in pool.names])
    return np.asarray(wanted & ~pool.constant)


PATTERN = re.compile(r"(\S+):(\S*)\.\.(\S*)")


@dataclass(frozen=True)
class Bounds:
    """Least and greatest value of each weight, *Shape:* (n_features,); infinite where there is none."""

    least: NDArray[np.float64]
    most: NDArray[np.float64]

    @classmethod
    def of(cls, names: Sequence[str], texts: Sequence[str]) -> Bounds:
        """Read bounds like "LM0_0:0..1" or "WordPenalty0_0:..0", as mert-moses.pl's --range has them.

        Raises:
            ConfigError: a text is not of this form, names no feature, or its bounds cross.
        """
        least, most = np.full(len(names), -np.inf), np.full(len(names), np.inf)
        for text in texts:
            name, low, high = _parse(text)
            if name not in names:
                raise ConfigError(f"no feature {name} to bound; there are {', '.join(names)}")
            least[names.index(name)], most[names.index(name)] = low, high
        return cls(least, most)

    @property
    def bind(self) -> bool:
        """Whether there is any bound."""
        return bool(np.isfinite([self.least, self.most]).any())

    def clip(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest weights in the box, *Shape:* (..., n_features)."""
        return np.clip(weights, self.least, self.most)

    def scaled(self, weights: NDArray[np.float64], total: float) -> NDArray[np.float64]:
        """Weights scaled to a sum of absolute values; unchanged where bounds hold them to their scale."""
        found = np.abs(weights).sum()
        return weights if self.bind or found == 0 else weights * (total / found)

    def steps(
        self, weights: NDArray[np.float64], vector: NDArray[np.float64]
    ) -> tuple[float, float]:
        """The least and the greatest x for which weights + x vector stay in the box."""
        moves = (vector != 0.0) & np.isfinite([self.least, self.most]).any(axis=0)
        if not moves.any():
            return -np.inf, np.inf
        ends = (np.array([self.least, self.most])[:, moves] - weights[moves]) / vector[moves]
        return float(min(0.0, ends.min(axis=0).max())), float(max(0.0, ends.max(axis=0).min()))


def _parse(text: str) -> tuple[str, float, float]:
    matched = PATTERN.fullmatch(text)
    try:
        if matched is None:
            raise ValueError
        low, high = float(matched[2] or "-inf"), float(matched[3] or "inf")
    except ValueError:
        raise ConfigError(f"found the bounds {text!r}, expected NAME:LEAST..MOST") from None
    if not low <= high:
        raise ConfigError(f"{matched[1]}: found the bounds {low:g}..{high:g}, expected rising ones")
    return matched[1], low, high
