"""Public entry: phrase pairs in pools that fit in memory.

A part of the stored pairs has the sources of some hashes, and a pool is a run of parts: a sample of the
sources of the whole table. So batches drawn from one pool after another cover the whole table, and the disk
is read in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.textio import StrPath
from rescorer.contract.choices import Weighting
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.pairs.pair_cache import stored_pairs
from rescorer.training.pairs.pair_files import PairFiles, add_counts
from rescorer.training.pairs.phrase_pairs import PairChoice, weights_of
from rescorer.training.pairs.record_spill import PairColumns
from rescorer.training.word_counts import WordCounts


def open_pairs(
    table: StrPath,
    choice: PairChoice,
    pool_pairs: int,
    max_pairs: int = 0,
    seed: int = 0,
    cache: StrPath | None = None,
) -> ChosenPairs:
    """The distinct pairs of chosen rows of a phrase table, read once; `PairPools` gives them as word ids.

    A pool has at most pool_pairs pairs, as far as parts allow; max_pairs, if not 0, are drawn at random. The
    cache is a directory keeping the pairs for later trainings; None for temporary files.

    Raises:
        InputError: a row is malformed, no pair is left, or `cache` is no cache.
        ConfigError: `cache` has the pairs of another table or choice.
        OSError: the disk is full.
    """
    return ChosenPairs(stored_pairs(table, choice, cache), pool_pairs, max_pairs, seed)


class ChosenPairs:
    """Stored pairs, or some of them drawn at random, in pools; see `open_pairs` for the arguments."""

    def __init__(self, files: PairFiles, pool_pairs: int, max_pairs: int, seed: int) -> None:
        self.files = files
        self._drawn: list[NDArray[np.int64]] | None = None
        sizes = files.n_pairs
        if 0 < max_pairs < sizes.sum():
            fits = sizes.sum() <= pool_pairs
            self._drawn = (_drawn_as_one if fits else _drawn_by_part)(files, max_pairs, seed)
            sizes = np.array([len(pairs) for pairs in self._drawn])
        self._pools = _pools(sizes, pool_pairs)
        self.sizes = [int(sizes[parts].sum()) for parts in self._pools]

    def columns(self, pool: int) -> PairColumns:
        """The pairs of a pool: sources in the order of the table."""
        parts = [self._part(number) for number in self._pools[pool]]
        return _joined(parts) if len(parts) > 1 else parts[0]

    def word_counts(self) -> tuple[WordCounts, WordCounts]:
        """How often each word occurs in the sources and in the targets."""
        if self._drawn is None:
            return self.files.word_counts()
        counts = np.zeros((2, len(self.files.words)), np.int64)
        for number in range(len(self._drawn)):
            add_counts(counts, self._part(number))
        source, target = (WordCounts.among(self.files.words, side) for side in counts)
        return source, target

    def content(self) -> Iterator[bytes]:
        """Bytes that identify these pairs."""
        yield self.files.digest.encode()
        for pairs in self._drawn or ():
            yield pairs.tobytes()

    def _part(self, number: int) -> PairColumns:
        columns = self.files.part(number)
        return columns if self._drawn is None else _kept(columns, self._drawn[number])


class PairPools:
    """Pairs as the word ids of a network, pool by pool."""

    def __init__(self, pairs: ChosenPairs, shortlists: Shortlists, weighting: Weighting) -> None:
        source, target = shortlists
        if source is None:
            raise ValueError("phrase pairs need a shortlist of source words")
        self.sizes = pairs.sizes
        self._pairs = pairs
        self._weighting = weighting
        n_words = len(pairs.files.words)
        self._ids = [side.encode_words(pairs.files.words, n_words) for side in (source, target)]

    def load(self, pool: int) -> EncodedPairs:
        """The pairs of a pool."""
        columns = self._pairs.columns(pool)
        n_sources = len(columns.source_lens)
        return EncodedPairs(
            sources=_padded(columns.source_words, columns.source_lens, self._ids[0]),
            source_lens=columns.source_lens.astype(np.int64),
            targets=_padded(columns.target_words, columns.target_lens, self._ids[1]),
            target_lens=columns.target_lens.astype(np.int64),
            groups=np.repeat(np.arange(n_sources), columns.n_targets),
            weights=weights_of(columns.counts, self._weighting),
        )


def _pools(sizes: NDArray[np.int64], pool_pairs: int) -> list[list[int]]:
    """Runs of parts with at most pool_pairs pairs; a larger part is a run of its own."""
    pools: list[list[int]] = [[]]
    n_pairs = 0
    for part, size in enumerate(sizes.tolist()):
        if n_pairs and n_pairs + size > pool_pairs:
            pools.append([])
            n_pairs = 0
        pools[-1].append(part)
        n_pairs += size
    return pools


def _drawn_as_one(files: PairFiles, n_pairs: int, seed: int) -> list[NDArray[np.int64]]:
    """The drawn pairs of each part, numbered in the order of the table."""
    parts = list(files.parts())
    order, _ = _order(parts)
    rng = np.random.default_rng(seed)
    is_drawn = np.zeros(len(order), np.bool_)
    is_drawn[order[rng.permutation(len(order))[:n_pairs]]] = True
    cuts = np.cumsum([len(part.target_lens) for part in parts])[:-1]
    return [np.flatnonzero(part) for part in np.split(is_drawn, cuts)]


def _drawn_by_part(files: PairFiles, n_pairs: int, seed: int) -> list[NDArray[np.int64]]:
    """The drawn pairs of each part, if there are too many to number at once."""
    rng = np.random.default_rng(seed)
    sizes = files.n_pairs
    counts = rng.multivariate_hypergeometric(sizes, n_pairs, method="marginals")
    return [
        np.sort(rng.permutation(int(size))[:count])
        for size, count in zip(sizes, counts, strict=True)
    ]


def _order(parts: Sequence[PairColumns]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All pairs in the order of the table, *Shape:* (n_pairs,), and their sources, (n_sources,)."""
    sources = np.argsort(np.concatenate([part.first_rows for part in parts]), kind="stable")
    n_targets = np.concatenate([part.n_targets for part in parts]).astype(np.int64)
    starts = np.cumsum(n_targets) - n_targets
    sizes = n_targets[sources]
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(starts[sources], sizes) + within, sources


def _joined(parts: Sequence[PairColumns]) -> PairColumns:
    pairs, sources = _order(parts)
    whole = PairColumns(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return _chosen(whole, sources, whole.n_targets[sources], pairs)


def _kept(columns: PairColumns, pairs: NDArray[np.int64]) -> PairColumns:
    """Some pairs, by rising numbers, with their sources."""
    groups = np.repeat(np.arange(len(columns.n_targets)), columns.n_targets)
    sources, n_targets = np.unique(groups[pairs], return_counts=True)
    return _chosen(columns, sources, n_targets.astype(np.uint32), pairs)


def _chosen(
    columns: PairColumns,
    sources: NDArray[np.int64],
    n_targets: NDArray[np.uint32],
    pairs: NDArray[np.int64],
) -> PairColumns:
    """Pairs by number, with their sources by number, and the pairs of each of these."""
    return PairColumns(
        first_rows=columns.first_rows[sources],
        source_lens=columns.source_lens[sources],
        source_words=_phrases(columns.source_words, columns.source_lens, sources),
        n_targets=n_targets,
        target_lens=columns.target_lens[pairs],
        target_words=_phrases(columns.target_words, columns.target_lens, pairs),
        counts=columns.counts[pairs],
    )


def _padded(
    words: NDArray[np.uint32], lens: NDArray[np.uint16], ids: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Phrases as ids, </s> after each, *Shape:* (n, max_len + 1)."""
    width = int(lens.max(initial=0)) + 1
    padded = np.full((len(lens), width), Vocabulary.end_id, np.int32)
    _fill(words, lens, ids, padded)
    return padded


@njit(nogil=True)
def _fill(
    words: NDArray[np.uint32],
    lens: NDArray[np.uint16],
    ids: NDArray[np.int32],
    padded: NDArray[np.int32],
) -> None:
    at = 0
    for phrase in range(len(lens)):
        for word in range(lens[phrase]):
            padded[phrase, word] = ids[words[at]]
            at += 1


@njit(nogil=True)
def _phrases(
    words: NDArray[np.uint32], lens: NDArray[np.uint16], chosen: NDArray[np.int64]
) -> NDArray[np.uint32]:
    starts = np.empty(len(lens) + 1, np.int64)
    starts[0] = 0
    for phrase in range(len(lens)):
        starts[phrase + 1] = starts[phrase] + lens[phrase]
    n_words = 0
    for phrase in chosen:
        n_words += lens[phrase]
    result = np.empty(n_words, np.uint32)
    at = 0
    for phrase in chosen:
        for word in range(starts[phrase], starts[phrase + 1]):
            result[at] = words[word]
            at += 1
    return result
