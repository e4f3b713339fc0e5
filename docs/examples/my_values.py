"""A column of your own values, here minus the number of target words: as a program, and as a Python object.

rescorer score phrase-table.gz --values "python my_values.py" --out scored.gz
PYTHONPATH=. rescorer score phrase-table.gz --scorer my_values:length_scorer --out scored.gz
"""

import sys

import numpy as np
from numpy.typing import NDArray

from rescorer.contract.batch import Batch


def main() -> None:
    """Answer blocks of lines `source ||| target`, each block ended by an empty line."""
    for line in sys.stdin.buffer:
        if line == b"\n":
            print(flush=True)
        else:
            source, target = line.rstrip(b"\n").split(b" ||| ")
            print(value(source, target))


def value(source: bytes, target: bytes) -> float:
    """What enters the log-linear model, such as a natural logarithm of a probability."""
    return -len(target.split())


class LengthScorer:
    """A `rescorer.contract.scorer.Scorer`."""

    shortlist = None  # it knows no vocabulary, so unknown words cannot be counted
    needs_links = False  # it reads no word links

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """One value for each pair, *Shape:* (n_pairs,)."""
        pairs = zip(batch.sources, batch.targets, strict=True)
        return np.array([value(*pair) for pair in pairs], np.float64)


def length_scorer() -> LengthScorer:
    """What --scorer calls, once."""
    return LengthScorer()


if __name__ == "__main__":
    main()
