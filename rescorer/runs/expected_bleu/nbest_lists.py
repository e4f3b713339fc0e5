"""N-best lists as inputs of expected BLEU: phrase pairs, totals of the other features, sentence BLEU.

All lists are in a file. The words, the place of each list, and the lists of a batch are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFile
from moses_bridge.base.compiled.hash_table import FREE
from rescorer.contract.batch import Batch
from rescorer.contract.numbered_phrases import NumberedPhrases, NumberedWords, pieces
from rescorer.runs.expected_bleu.hypothesis_blocks import N_HYPOTHESES, N_RUNS, Block

# Numbers in front of a run, an even number: its sentence, hypotheses, uses and phrase pairs.
HEADER = 4
NUMBERS_AT_ONCE = 2**20


class HypothesisRun(NamedTuple):
    """Hypotheses of a sentence read together.

    Attributes:
        totals: weighted sum of each one's other features, *Shape:* (n,).
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
    """Runs in reading order, in a file that is empty at first."""

    def __init__(self, file: ArrayFile[np.int32]) -> None:
        self._file = file
        self._sentences: list[NDArray[np.int64]] = []
        self._ends: list[NDArray[np.int64]] = []

    def append(self, block: Block) -> None:
        """Write the runs of a block and empty the block; OSError if the disk is full."""
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
        """The numbers of all runs, in a mapped file; the sentence of each run, and where it ends, (n_runs,)."""
        none = np.empty(0, np.int64)
        sentences, ends = (
            np.concatenate([none, *self._sentences]),
            np.concatenate([none, *self._ends]),
        )
        return self._file.mapped(), sentences, ends


def _packed(
    sentence: int, block: Block, first: list[int], end: list[int]
) -> list[NDArray[np.int32]]:
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


def unpacked(numbers: NDArray[np.int32]) -> HypothesisRun:
    """The run of numbers written by `StoredRuns.append`."""
    _, n, n_uses, n_pairs = numbers[:HEADER].tolist()
    bleu, n_uses_each = HEADER + 2 * n, HEADER + 4 * n
    uses = n_uses_each + n
    pairs = uses + n_uses
    words = pairs + 2 * n_pairs
    return HypothesisRun(
        numbers[HEADER:bleu].view(np.float64),
        numbers[bleu:n_uses_each].view(np.float64),
        numbers[n_uses_each:uses],
        numbers[uses:pairs],
        numbers[pairs:words].reshape(-1, 2),
        numbers[words:],
    )


@dataclass(frozen=True)
class NBestLists:
    """Hypotheses grouped by sentence, and their phrase pairs.

    Attributes:
        pairs: the distinct phrase pairs of all hypotheses.
        uses: numbers of the phrase pairs of all hypotheses, concatenated, *Shape:* (n_uses,).
        n_uses: phrase pairs of each hypothesis, *Shape:* (n,).
        totals: weighted sum of the other features of each, *Shape:* (n,).
        bleu: sentence BLEU of each, 0 to 1, *Shape:* (n,).
        starts: first hypothesis of each list, and n at the end, *Shape:* (n_lists + 1,).
    """

    pairs: Batch
    uses: NDArray[np.int64]
    n_uses: NDArray[np.int64]
    totals: NDArray[np.float64]
    bleu: NDArray[np.float64]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True)
class StoredLists:
    """N-best lists of many sentences in a file.

    Attributes:
        words: of the phrases, by number.
        numbers: the runs, as `stored_runs` packs them, those of a sentence in their order.
        bounds: where each run begins and ends, the runs of a sentence together, *Shape:* (n_runs, 2).
        starts: first run of each list, and n_runs at the end, *Shape:* (n_lists + 1,).
        documents: document number of each list, -1 for none, *Shape:* (n_lists,); None if unknown.
    """

    words: NumberedWords
    numbers: NDArray[np.int32]
    bounds: NDArray[np.int64]
    starts: NDArray[np.int64]
    documents: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    def part(self, lists: NDArray[np.int64]) -> NBestLists:
        """The lists with these numbers."""
        first, end = self.starts[lists], self.starts[lists + 1]
        bounds = [
            self.bounds[run] for place in zip(first, end, strict=True) for run in range(*place)
        ]
        runs = [unpacked(self.numbers[first:end]) for first, end in bounds]
        lens = np.add.reduceat(
            [len(run.totals) for run in runs], np.cumsum(end - first) - (end - first)
        )
        pairs, uses = _pairs(runs, self.words)
        return NBestLists(
            pairs,
            uses,
            np.concatenate([run.n_uses for run in runs], dtype=np.int64),
            np.concatenate([run.totals for run in runs]),
            np.concatenate([run.bleu for run in runs]),
            np.cumsum([0, *lens]),
        )

    def content(self) -> Iterator[bytes]:
        """Bytes that identify these lists."""
        yield b"\n".join(self.words.words)
        for first in range(0, len(self.numbers), NUMBERS_AT_ONCE):
            yield self.numbers[first : first + NUMBERS_AT_ONCE].tobytes()
        if self.documents is not None:
            yield self.documents.tobytes()


def _pairs(runs: Sequence[HypothesisRun], words: NumberedWords) -> tuple[Batch, NDArray[np.int64]]:
    """The distinct phrase pairs of runs, and the pair of each use, *Shape:* (n_uses,)."""
    sizes = np.concatenate([run.pair_sizes for run in runs])
    numbers = np.concatenate([run.words for run in runs])
    which, chosen = _distinct(sizes, numbers)
    firsts = np.cumsum([0, *(len(run.pair_sizes) for run in runs)])[:-1]
    uses = [which[first + run.uses] for first, run in zip(firsts, runs, strict=True)]
    starts = np.append(0, np.cumsum(sizes))[:-1].reshape(-1, 2)[chosen]
    sides = (_phrases(words, numbers, starts[:, side], sizes[chosen, side]) for side in (0, 1))
    return Batch(*sides), np.concatenate(uses)


def _distinct(
    sizes: NDArray[np.int32], numbers: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct pair of each pair, *Shape:* (n_pairs,), and the first occurrence of each of those."""
    texts = pieces(numbers, np.append(0, np.cumsum(sizes.sum(axis=1))))
    seen: dict[tuple[int, bytes], int] = {}
    keys = zip(sizes[:, 0].tolist(), texts, strict=True)
    found = (seen.setdefault(key, len(seen)) for key in keys)
    which = np.fromiter(found, np.int64, len(texts))
    return which, np.unique(which, return_index=True)[1]


def _phrases(
    words: NumberedWords,
    numbers: NDArray[np.int32],
    starts: NDArray[np.int64],
    lens: NDArray[np.int32],
) -> NumberedPhrases:
    ends = np.append(0, np.cumsum(lens, dtype=np.int64))
    places = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], lens)
    return NumberedPhrases(words, numbers[places], ends)
