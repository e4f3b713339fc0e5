"""Phrase table to training pairs: distinct, weighted, with a held-out part."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moses_bridge.errors import InputError
from moses_bridge.formats.phrase_table import BAR, read_blocks, words
from moses_bridge.progress import Progress
from moses_bridge.textio import StrPath
from rescorer.vocabulary import Vocabulary, count_words

ROWS_AT_ONCE = 50_000
SCORES_COLUMN, COUNTS_COLUMN = 2, 4
DIRECT_PROB, JOINT_COUNT = 2, 2

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

    def shortlists(self, n_words: int) -> tuple[Vocabulary, Vocabulary]:
        """The n_words most frequent words of the sources and of the targets."""
        source, target = (
            Vocabulary.from_counts(count_words(side), n_words)
            for side in (self.sources, self.targets)
        )
        return source, target

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
            ignored); "count" weights it by its joint count, "sqrt-count" by the root of it.

    Raises:
        InputError: a row is malformed, a number is wanted but not there, or no pair is left.
    """
    pairs: dict[bytes, dict[bytes, float]] = {}
    with Progress("read phrase pairs", unit="rows") as progress:
        for block in read_blocks(table, ROWS_AT_ONCE):
            rows = zip(block.lines, block.sources, block.targets, strict=True)
            for line_number, (line, source, target) in enumerate(rows, start=block.first_line):
                if any(_is_longer(phrase, max_phrase_words) for phrase in (source, target)):
                    continue
                if min_prob and _direct_prob(line, table, line_number) < min_prob:
                    continue
                weight = _weight(weighting, line, table, line_number)
                pairs.setdefault(source, {})[target] = weight
            progress.update(len(block))
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
    return n_blanks >= n_words and len(words(phrase)) > n_words


def _weight(weighting: Weighting, line: bytes, table: StrPath, line_number: int) -> float:
    if weighting == "distinct":
        return 1.0
    count = _joint_count(line, table, line_number)
    return count if weighting == "count" else count**0.5


def _joint_count(line: bytes, table: StrPath, line_number: int) -> float:
    expected = "count(target) count(source) count(source, target) in column 5"
    return _number(line, COUNTS_COLUMN, JOINT_COUNT, expected, table, line_number)


def _direct_prob(line: bytes, table: StrPath, line_number: int) -> float:
    expected = "p(target | source) as the third score"
    return _number(line, SCORES_COLUMN, DIRECT_PROB, expected, table, line_number)


def _number(
    line: bytes, column: int, place: int, expected: str, table: StrPath, line_number: int
) -> float:
    columns = line.split(BAR)
    text = columns[column] if len(columns) > column else b""
    try:
        number = float(text.split()[place])
    except (IndexError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise InputError(table, line_number, repr(text.strip().decode(errors="replace")), expected)
    return number


def _grouped(pairs: dict[bytes, dict[bytes, float]]) -> PhrasePairs:
    sizes = [len(targets) for targets in pairs.values()]
    return PhrasePairs(
        sources=list(pairs),
        targets=[target for targets in pairs.values() for target in targets],
        groups=np.repeat(np.arange(len(pairs)), sizes),
        weights=np.array([weight for targets in pairs.values() for weight in targets.values()]),
    )


def held_out_mask(n_pairs: int, n_held_out: int, seed: int) -> NDArray[np.bool_]:
    """Which pairs are held out: n_held_out at random, at most a tenth of all, *Shape:* (n_pairs,)."""
    mask = np.zeros(n_pairs, np.bool_)
    rng = np.random.default_rng(seed)
    mask[rng.permutation(n_pairs)[: min(n_held_out, n_pairs // 10)]] = True
    return mask


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
