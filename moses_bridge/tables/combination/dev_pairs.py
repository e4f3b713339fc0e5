"""Phrase pairs of a development text: what the weights of tables are fitted to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.mixture_weights import Observations
from moses_bridge.base.progress import track_lines
from moses_bridge.base.textio import read_lines
from moses_bridge.formats.phrase_table import BLANKS, has_counts, joint_count, split_row
from moses_bridge.formats.row_columns import SCORES, SOURCE, TARGET
from moses_bridge.tables.combination.merged_tables import united_pairs
from moses_bridge.tables.combination.opinions import Judge

PAIRS_AT_ONCE = 1 << 12
LINKS = re.compile(rb"\s*(\d+-\d+\s*)*")
PhrasePair = tuple[bytes, bytes]


def read_dev_pairs(path: Path) -> Counter[PhrasePair]:
    """Read how often each phrase pair occurs in a development text.

    Args:
        path: Moses's `extract` file (source ||| target ||| links, one occurrence a line, in any order), or a
            phrase table with counts.

    Raises:
        InputError: a row is neither, or there is none.
    """
    pairs: Counter[PhrasePair] = Counter()
    rows = track_lines(read_lines(path), f"read {path.name}", path)
    for line_number, line in enumerate(rows, start=1):
        columns = split_row(line, path, line_number)
        pair = columns[SOURCE].strip(BLANKS), columns[TARGET].strip(BLANKS)
        if has_counts(line):
            pairs[pair] += joint_count(line, path, line_number)  # type: ignore[assignment]  # may be a fraction
        elif LINKS.fullmatch(columns[SCORES]):
            pairs[pair] += 1
        else:
            raise InputError(
                path,
                line_number,
                shown(columns[SCORES]),
                "word links, as Moses's extract writes them, or counts in column 5",
            )
    if not pairs:
        raise InputError(path, None, "no rows", "phrase pairs of a development text")
    return pairs


def observe(
    tables: Sequence[Path], dev: Path, judge: Judge, scores: Sequence[int]
) -> list[Observations]:
    """What the tables say about the pairs of a development text.

    Args:
        tables: the tables.
        dev: the development text's pairs, see `read_dev_pairs`.
        judge: gives values and masses.
        scores: which scores to look at.

    Returns:
        The observations for each of the scores.

    Raises:
        InputError: no table has a pair of the development text with a score above 0, or a row is malformed.
    """
    wanted = read_dev_pairs(dev)
    pairs = united_pairs(tables, "look up dev pairs")
    found = (pair for pair in pairs if (pair.source, pair.target) in wanted)
    values, masses, counts = [], [], []
    for block in blocks_of(found, PAIRS_AT_ONCE):
        opinions = judge(block)
        values.append(opinions.values)
        masses.append(opinions.masses)
        counts += [wanted[pair.source, pair.target] for pair in block]
    if not counts:
        raise InputError(dev, None, "no pair of the tables", "pairs that a table has")
    every = Observations(np.concatenate(values), np.concatenate(masses), np.array(counts, float))
    of_scores = [Observations(every.values[:, s], every.masses[:, s], every.counts) for s in scores]
    for score, observations in zip(scores, of_scores, strict=True):
        if not observations.values.any():
            raise InputError(dev, None, f"only pairs whose score {score + 1} is 0", "other pairs")
    return of_scores
