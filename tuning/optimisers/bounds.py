"""Bounds of weights: a box never left by the optimisers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError

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
