"""Phrase table to training pairs: distinct, weighted, with a held-out part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moses_bridge.errors import InputError
from moses_bridge.formats.phrase_table import direct_prob, joint_count, read_blocks
from moses_bridge.formats.words import split_words
from moses_bridge.line_progress import track_blocks
from moses_bridge.textio import StrPath
from rescorer.vocabulary import count_words

# Rows of the table that are in memory beside the pairs.
ROWS_AT_ONCE = 50_000

Weighting = Literal["distinct", "sqrt-count", "count"]


@dataclass(frozen=True)
class PhrasePairs:
    """Distinct phrase pairs, grouped by source.

    Attributes:
        sources: the distinct sources.
        targets: one target a pair.
        groups: the source of each pair, rising, *Shape:* (n_pairs,).
        weights: how much each pair counts in the loss, *Shape:* (n_pairs,).
    """

    sources: list[bytes]
    targets: list[bytes]
    groups: NDArray[np.int64]
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.targets)

    def word_counts(self) -> tuple[Counter[bytes], Counter[bytes]]:
        """How often each word stands in the distinct sources and in the targets."""
        return count_words(self.sources), count_words(self.targets)

    def content(self) -> Iterator[bytes]:
        """All of it as bytes."""
        yield from self.sources
        yield from self.targets
        yield self.groups.tobytes()
        yield self.weights.tobytes()


def read_pairs(
    table: StrPath, max_phrase_words: int, weighting: Weighting, min_prob: float = 0.0
) -> PhrasePairs:
    """The distinct pairs of a phrase table whose sides have at most max_phrase_words words each.

    Args:
        table: a phrase table.
        max_phrase_words: longer pairs are left out.
        min_prob: pairs with a lower p(target | source), the third score, are left out.
        weighting: "distinct" counts each pair once, as in the paper (section 3.1: frequencies are
            ignored); "count" weights it by its joint count, "sqrt-count" by the root of it. Pairs with a
            count of 0 are left out.

    Raises:
        InputError: a row is malformed, a number is wanted but not there, or no pair is left.
    """
    pairs: dict[bytes, dict[bytes, float]] = {}
    for block in track_blocks(read_blocks(table, ROWS_AT_ONCE), "read phrase pairs", table):
        rows = zip(block.lines, block.sources, block.targets, strict=True)
        for line_number, (line, source, target) in enumerate(rows, start=block.first_line):
            if any(_is_longer(phrase, max_phrase_words) for phrase in (source, target)):
                continue
            if min_prob and direct_prob(line, table, line_number) < min_prob:
                continue
            weight = _weight(weighting, line, table, line_number)
            if weight:
                pairs.setdefault(source, {})[target] = weight
    if not pairs:
        raise InputError(
            table,
            None,
            "no phrase pair",
            f"pairs of at most {max_phrase_words} words and p(target | source) of {min_prob:g} or more",
        )
    return _grouped(pairs)


def _is_longer(phrase: bytes, n_words: int) -> bool:
    n_blanks = phrase.count(b" ") + phrase.count(b"\t")
    return n_blanks >= n_words and len(split_words(phrase)) > n_words


def _weight(weighting: Weighting, line: bytes, table: StrPath, line_number: int) -> float:
    if weighting == "distinct":
        return 1.0
    count = joint_count(line, table, line_number)
    return count if weighting == "count" else count**0.5


def _grouped(pairs: dict[bytes, dict[bytes, float]]) -> PhrasePairs:
    sizes = [len(targets) for targets in pairs.values()]
    return PhrasePairs(
        sources=list(pairs),
        targets=[target for targets in pairs.values() for target in targets],
        groups=np.repeat(np.arange(len(pairs)), sizes),
        weights=np.array([weight for targets in pairs.values() for weight in targets.values()]),
    )


def sampled(pairs: PhrasePairs, n_pairs: int, seed: int) -> PhrasePairs:
    """n_pairs of the pairs, or all if there are not more, drawn at random; their order stays."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(pairs))[:n_pairs])
    sources, groups = np.unique(pairs.groups[rows], return_inverse=True)
    return PhrasePairs(
        sources=[pairs.sources[source] for source in sources],
        targets=[pairs.targets[row] for row in rows],
        groups=groups,
        weights=pairs.weights[rows],
    )
