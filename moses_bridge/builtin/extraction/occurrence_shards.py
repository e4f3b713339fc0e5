"""All occurrences of phrase pairs, shard by shard in the order of the sources in the table.

An external sort by distribution: sorted runs in a file, each with a regular sample of its keys; the
samples of all runs show where to cut them (Shi and Schaeffer, Parallel sorting by regular sampling,
1992). All occurrences of one source phrase are in one shard.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.extraction.aligned_corpus import Text
from moses_bridge.builtin.extraction.occurrences import Occurrences
from moses_bridge.builtin.extraction.phrase_numbers import leading_words
from moses_bridge.builtin.extraction.spilled_rows import SpilledRows

SAMPLES_OF_A_SHARD = 1 << 12  # a run puts at most a 4096th too much into a shard


class OccurrenceShards:
    """Takes occurrences in any order and gives them back in shards.

    Args:
        source: the source text.
        rows: an empty file for the runs.
        occurrences_at_once: rough size of a shard. A shard grows beyond it where the phrases
            sharing their first words (three in a vocabulary of up to two millions) occur more often,
            and by at most a 4096th for each run.
    """

    def __init__(
        self, source: Text, rows: SpilledRows[Occurrences], occurrences_at_once: int
    ) -> None:
        self._source = source
        self._rows = rows
        self._stride = max(1, occurrences_at_once // SAMPLES_OF_A_SHARD)
        self._samples_of_a_shard = max(1, occurrences_at_once // self._stride)
        self._samples = [np.empty(0, np.int64)]
        self._ends = [0]

    def add(self, occurrences: Occurrences) -> None:
        """Sort a run and write it behind the others."""
        keys = self._keys(occurrences)
        order = np.argsort(keys)
        columns: Iterator[Any] = (column[order] for column in occurrences)
        self._rows.append(Occurrences(*columns))
        self._samples.append(keys[order[:: self._stride]])
        self._ends.append(self._rows.n_rows)

    @property
    def n_occurrences(self) -> int:
        """Number of occurrences so far."""
        return self._rows.n_rows

    def __iter__(self) -> Iterator[Occurrences]:
        """Yield shards; no source phrase of one precedes any of an earlier one in the table."""
        samples = np.sort(np.concatenate(self._samples))
        bounds = np.unique(samples[self._samples_of_a_shard :: self._samples_of_a_shard])
        cuts = [self._cuts(first, end, bounds) for first, end in pairwise(self._ends)]
        for shard in range(len(bounds) + 1):
            parts = [self._rows.read(int(cut[shard]), int(cut[shard + 1])) for cut in cuts]
            if parts:
                yield Occurrences(*map(np.concatenate, zip(*parts, strict=True)))

    def _cuts(self, first: int, end: int, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n_shards + 1,) where the rows of each shard begin in one run, and where the run ends."""
        keys = self._keys(self._rows.read(first, end))
        return np.concatenate(([first], first + np.searchsorted(keys, bounds), [end]))

    def _keys(self, occurrences: Occurrences) -> NDArray[np.int64]:
        return leading_words(self._source, occurrences.source_starts, occurrences.source_lens)
