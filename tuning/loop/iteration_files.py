"""The files of an iteration of a tuning run, read when the run is resumed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import check_plain_file, open_record_of, read_json

Weights = dict[str, list[float]]

REMOVE = "Remove the file to repeat the optimisation"


@dataclass(frozen=True)
class Optimised:
    """The result of the optimiser in an iteration.

    Attributes:
        weights: weights of all features, for the next decoding.
        bleu: BLEU on the pool, 0 to 100; the metric tuned for if that is another one, as in the next.
        restarts: BLEU on the pool reached from each start.
        frozen: columns keeping their weight.
    """

    weights: Weights
    bleu: float
    restarts: list[float] = field(default_factory=list)
    frozen: list[str] = field(default_factory=list)


def read_optimised(path: Path, weights: Weights) -> Optimised:
    """Read iterNN.optimised.json.

    Args:
        path: path of the file.
        weights: weights of the decoding; the file must have the same features and numbers of scores.

    Raises:
        InputError: the file is missing, damaged or something else, or has other features.
    """
    check_plain_file(path)
    what = "what the optimiser found"
    found = open_record_of(Optimised, read_json(path), path, what, REMOVE)
    check_finite(found.weights, path)
    if {name: len(row) for name, row in found.weights.items()} != {
        name: len(row) for name, row in weights.items()
    }:
        raise InputError(path, None, "weights of other features", "those of the run", REMOVE)
    return found


def check_finite(weights: Weights, path: Path) -> None:
    """Refuse infinite weights and NaN, which Python's JSON reader accepts.

    Args:
        weights: weights by feature.
        path: path of their file, for the error.

    Raises:
        InputError: a weight is not finite.
    """
    for name, row in weights.items():
        if not _are_finite(row):
            raise InputError(path, None, f"{row} as weights of {name!r}", "finite numbers")


def _are_finite(numbers: Iterable[float]) -> bool:
    return all(map(math.isfinite, numbers))
