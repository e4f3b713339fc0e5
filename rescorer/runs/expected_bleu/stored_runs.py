"""Runs of hypotheses in a file: each has the phrase pairs that it needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFile
from moses_bridge.compiled.hash_table import FREE
from rescorer.runs.expected_bleu.hypothesis_blocks import N_HYPOTHESES, N_RUNS, Block

# Numbers in front of a run, an even number: its sentence, hypotheses, uses and phrase pairs.
HEADER = 4


class Run(NamedTuple):
    """Hypotheses of a sentence that were read together.

    Attributes:
        totals: weighted sum of the other features of each, *Shape:* (n,).
        bleu: of each, 0 to 1, *Shape:* (n,).
        n_uses: phrase pairs of each, *Shape:* (n,).
        uses: numbers of the run's pairs, *Shape:* (n_uses,).
        pair_sizes: source words and target words of each pair, *Shape:* (n_pairs, 2).
        words: of the pairs by number, source words first, *Shape:* (n_words,).
    """

    totals: NDArray[np.float64]
    bleu: NDArray[np.float64]
    n_uses: NDArray[np.int32]
    uses: NDArray[np.int32]
    pair_sizes: NDArray[np.int32]
    words: NDArray[np.int32]


class StoredRuns:
    """Runs in the order in which they were read.

    Args:
        file: an empty one.
    """

    def __init__(self, file: ArrayFile[np.int32]) -> None:
        self._file = file
        self._sentences: list[NDArray[np.int64]] = []
        self._ends: list[NDArray[np.int64]] = []

    def append(self, block: Block) -> None:
        """Write the runs of a block, and empty it.

        Raises:
            OSError: the disk is full.
        """
        n_runs = int(block.sizes[N_RUNS])
        bounds = np.vstack([block.firsts[:n_runs], block.sizes[N_HYPOTHESES:]]).tolist()
        parts, ends = [np.empty(0, np.int32)], []
        n_numbers = len(self._file)
        for sentence, first, end in zip(block.sentences, bounds[:-1], bounds[1:], strict=False):
            run = _packed(int(sentence), block, first, end)
            n_numbers += sum(map(len, run))
            ends.append(n_numbers)
            parts += run
        self._file.append(np.concatenate(parts))
        self._sentences.append(block.sentences[:n_runs].copy())
        self._ends.append(np.array(ends, np.int64))
        block.slots.fill(FREE)
        block.sizes.fill(0)

    def read(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """All runs.

        Returns:
            Their numbers, in a mapped file, *Shape:* (n_numbers,); the sentence of each, *Shape:* (n_runs,);
            where each ends, *Shape:* (n_runs,).
        """
        none = np.empty(0, np.int64)
        sentences, ends = (
            np.concatenate([none, *self._sentences]),
            np.concatenate([none, *self._ends]),
        )
        return self._file.mapped(), sentences, ends


def _packed(
    sentence: int, block: Block, first: list[int], end: list[int]
) -> list[NDArray[np.int32]]:
    """A run as numbers of 32 bits."""
    hypotheses, uses, pairs, words = map(slice, first, end)
    sizes = [end[place] - first[place] for place in range(HEADER - 1)]
    return [
        np.array([sentence, *sizes], np.int32),
        block.totals[hypotheses].view(np.int32),
        block.bleu[hypotheses].view(np.int32),
        block.n_uses[hypotheses],
        block.uses[uses],
        block.pair_sizes[pairs].ravel(),
        block.words[words],
    ]


def unpacked(numbers: NDArray[np.int32]) -> Run:
    """A run from the numbers that `StoredRuns.append` wrote."""
    _, n, n_uses, n_pairs = numbers[:HEADER].tolist()
    bleu, n_uses_each = HEADER + 2 * n, HEADER + 4 * n
    uses = n_uses_each + n
    pairs = uses + n_uses
    words = pairs + 2 * n_pairs
    return Run(
        numbers[HEADER:bleu].view(np.float64),
        numbers[bleu:n_uses_each].view(np.float64),
        numbers[n_uses_each:uses],
        numbers[uses:pairs],
        numbers[pairs:words].reshape(-1, 2),
        numbers[words:],
    )
