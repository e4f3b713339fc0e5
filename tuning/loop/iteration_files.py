"""What an iteration of a tuning run leaves for resuming, read again."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import check_plain_file, open_record_of, read_json

Weights = dict[str, list[float]]

REMOVE = "Remove the file, and the weights are sought again"


@dataclass(frozen=True)
class Optimised:
    """What the optimiser found in an iteration.

    Attributes:
        weights: of all features, for the next decoding.
        bleu: on the pool, 0 to 100.
        restarts: BLEU on the pool reached from each start.
        frozen: columns whose weight was kept.
    """

    weights: Weights
    bleu: float
    restarts: list[float] = field(default_factory=list)
    frozen: list[str] = field(default_factory=list)


def read_optimised(path: Path, weights: Weights) -> Optimised:
    """Read iterNN.optimised.json.

    Args:
        path: of the file.
        weights: those of the decoding, which the file's must be like: the same features and numbers of scores.

    Raises:
        InputError: it is something else, damaged, or of other features.
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
    """Refuse weights that are infinite or no numbers: JSON of Python may have them.

    Raises:
        InputError: one is.
    """
    for name, row in weights.items():
        if not _are_finite(row):
            raise InputError(path, None, f"{row} as weights of {name!r}", "finite numbers")


def _are_finite(numbers: Iterable[float]) -> bool:
    return all(map(math.isfinite, numbers))
