"""Phrase table to training pairs: distinct, weighted, with a held-out part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moses_bridge.errors import InputError
from moses_bridge.formats.phrase_table import BAR, read_blocks
from moses_bridge.progress import Progress
from moses_bridge.textio import StrPath

ROWS_AT_ONCE = 50_000
COUNTS_COLUMN = 4

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


def read_pairs(table: StrPath, max_phrase_words: int, weighting: Weighting) -> PhrasePairs:
    """The distinct pairs of a phrase table whose sides have at most max_phrase_words words each.

    Args:
        table: a phrase table.
        max_phrase_words: longer pairs are left out.
        weighting: "distinct" counts each pair once, as in the paper (section 3.1: frequencies are
            ignored); "count" weights it by its joint count, "sqrt-count" by the root of it.

    Raises:
        InputError: a row is malformed, counts are wanted but not there, or no pair is left.
    """
    pairs: dict[bytes, dict[bytes, float]] = {}
    with Progress("read phrase pairs", unit="rows") as progress:
        for block in read_blocks(table, ROWS_AT_ONCE):
            rows = zip(block.lines, block.sources, block.targets, strict=True)
            for line_number, (line, source, target) in enumerate(rows, start=block.first_line):
                if max(source.count(b" "), target.count(b" ")) < max_phrase_words:
                    weight = _weight(weighting, line, table, line_number)
                    pairs.setdefault(source, {})[target] = weight
            progress.update(len(block))
    if not pairs:
        raise InputError(
            table, None, "no phrase pair", f"pairs of at most {max_phrase_words} words"
        )
    return _grouped(pairs)


def _weight(weighting: Weighting, line: bytes, table: StrPath, line_number: int) -> float:
    if weighting == "distinct":
        return 1.0
    count = _joint_count(line, table, line_number)
    return count if weighting == "count" else count**0.5


def _joint_count(line: bytes, table: StrPath, line_number: int) -> float:
    columns = line.split(BAR)
    counts = columns[COUNTS_COLUMN].split() if len(columns) > COUNTS_COLUMN else []
    if len(counts) < 3:
        raise InputError(
            table, line_number, f"{len(counts)} counts", "count(e) count(f) count(e,f) in column 5"
        )
    return float(counts[2])


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
