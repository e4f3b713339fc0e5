"""Combining phrase tables of several corpora: by counts, by a mixture, or by priority."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.choices import Combination, UnknownPhrases
from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.mixture_weights import (
    SUM_TOLERANCE,
    Observations,
    cross_entropy,
    fitted_weights,
)
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import track_lines
from moses_bridge.base.textio import StrPath, is_stream, open_write, read_lines
from moses_bridge.formats.phrase_table import (
    BLANKS,
    append_score_columns,
    columns_of,
    has_counts,
    joint_count,
    split_row,
)
from moses_bridge.formats.row_columns import (
    BAR,
    COUNTS,
    DIRECT_PROB,
    INVERSE_PROB,
    SCORES,
    SOURCE,
    TARGET,
)
from moses_bridge.tables.combination.merged_tables import UnitedPair, number_of_scores, united_pairs
from moses_bridge.tables.combination.table_values import (
    N_SCORES,
    CountValues,
    ReadValues,
    mixture_values,
)

ELSEWHERE, HERE = 1.0, 2.718  # exp(0) and exp(1), as written by combine-ptables.pl of Moses
COMPUTED: tuple[Combination, ...] = ("counts", "mixture")
PAIRS_AT_ONCE = 1 << 12
LINKS = re.compile(rb"\s*(\d+-\d+\s*)*")
PhrasePair = tuple[bytes, bytes]


@dataclass(frozen=True)
class CombineConfig:
    """Settings of `combine_tables`.

    Attributes:
        how: the kind of combination. "counts" adds the counts of the tables and computes relative
            frequencies anew; "mixture" is a linear interpolation of the scores; "fill-up" takes each pair
            from the first table that has it, with a score for each further table that says whether it
            is from there; "first-found" is the same without these scores; "back-off" takes all pairs of
            a source phrase from the first table that has this phrase.
        weights: weights of the tables for "counts" and "mixture": one list for all scores, or four. Those of
            a mixture sum to 1.
        unknown: what a mixture makes of a phrase that a table lacks: with "renormalise" that table has no
            say in probabilities given this phrase, with "zero" these are 0.
    """

    how: Combination
    weights: tuple[tuple[float, ...], ...] = ()
    unknown: UnknownPhrases = "renormalise"

    def __post_init__(self) -> None:
        if not self.weights:
            return
        if self.how not in COMPUTED:
            raise ConfigError(f"{self.how} has no weights: leave them out")
        n_lists = (1,) if self.how == "counts" else (1, N_SCORES)
        if len(self.weights) not in n_lists:
            expected = " or ".join(map(str, n_lists))
            raise ConfigError(f"found {len(self.weights)} lists of weights, expected {expected}")
        for weights in self.weights:
            _check_weights(weights, self.how)


def _check_weights(weights: Sequence[float], how: Combination) -> None:
    shown = ",".join(f"{weight:g}" for weight in weights)
    if not all(isfinite(weight) and weight > 0 for weight in weights):
        raise ConfigError(f"found the weights {shown}, expected weights above 0")
    if how == "mixture" and abs(sum(weights) - 1) > SUM_TOLERANCE:
        raise ConfigError(
            f"found the weights {shown}, whose sum is {sum(weights):g}, expected a sum of 1"
        )


@dataclass
class CombineReport:
    """Counts and weights of a combination.

    Attributes:
        n_first: number of rows first found in each table.
        weights: weights of the tables for each score, (4, n_tables); empty without weights.
        cross_entropies: in bits per pair of the development text found in a table: one for each score, or for
            "counts" one for both probabilities; empty without a development text.
    """

    n_first: list[int]
    weights: tuple[tuple[float, ...], ...] = ()
    cross_entropies: tuple[float, ...] = field(default=())

    @property
    def n_rows(self) -> int:
        """Number of rows written."""
        return sum(self.n_first)


def combine_tables(
    tables: Sequence[Path], out: Path, config: CombineConfig, dev: Path | None = None
) -> CombineReport:
    """Combine two tables or more into one; all have the same number of scores and are sorted with LC_ALL=C.

    Alignment, counts and further columns of a row are those of the first table with the pair; "counts" writes
    the weighted sums of the counts. "counts" loses the smoothing of the tables, a mixture keeps it.

    Weights are fitted to `dev`, phrase pairs of a development text: an `extract` file of Moses, or a phrase
    table with counts. They minimise the cross-entropy of its pairs: for a mixture of each score by itself
    (Sennrich 2012), for counts of both probabilities.

    Raises:
        InputError: a row is malformed, out of order, repeated or without needed counts, numbers of scores
            differ, or no table has a pair of the development text.
        ConfigError: the settings do not fit the tables, or an input would be overwritten.
    """
    _check(tables, config, dev)
    refuse_overwriting([out], [*tables, *([] if dev is None else [dev])])
    report = CombineReport([0] * len(tables))
    if config.how not in COMPUTED:
        _write(out, _chosen(tables, config.how, report.n_first))
        return report
    _refuse_other_scores(tables)
    read_values = (
        CountValues(tables) if config.how == "counts" else mixture_values(tables, config.unknown)
    )
    weights = _given_weights(config, len(tables))
    if dev is not None:
        weights, report.cross_entropies = _fitted(tables, dev, read_values)
    report.weights = tuple(map(tuple, weights.tolist()))
    _write(out, _computed(tables, read_values, weights, report.n_first))
    return report


def _check(tables: Sequence[Path], config: CombineConfig, dev: Path | None) -> None:
    if len(tables) < 2:
        raise ConfigError(f"found {len(tables)} table, expected two or more to combine")
    for path in (*tables, *([] if dev is None else [dev])):
        if is_stream(path):
            raise ConfigError(f"{path} is read more than once: name a file")
    for weights in config.weights:
        if len(weights) != len(tables):
            raise ConfigError(f"found {len(weights)} weights, expected one for each table")
    if dev is not None and (config.weights or config.how not in COMPUTED):
        raise ConfigError("--dev fits the weights of counts or a mixture, which must not be given")
    if config.how == "mixture" and not config.weights and dev is None:
        raise ConfigError("a mixture needs --corpus-weights, or --dev to fit them to")


def _refuse_other_scores(tables: Sequence[Path]) -> None:
    n_scores = number_of_scores(tables)
    if n_scores != N_SCORES:
        expected, hint = (
            "the four of Moses's training",
            "Combine the tables before other columns are added",
        )
        raise InputError(tables[0], 1, f"{n_scores} scores", expected, hint)


def _given_weights(config: CombineConfig, n_tables: int) -> NDArray[np.float64]:
    """Weights of the tables for each score, (4, n_tables)."""
    weights = np.array(config.weights or [[1.0] * n_tables])
    if config.how == "mixture":
        weights /= weights.sum(axis=1, keepdims=True)
    return np.array(np.broadcast_to(weights, (N_SCORES, n_tables)))


def _fitted(
    tables: Sequence[Path], dev: Path, read_values: ReadValues
) -> tuple[NDArray[np.float64], tuple[float, ...]]:
    """The fitted weights (4, n_tables), and their cross-entropies."""
    if not isinstance(read_values, CountValues):
        of_scores = observe(tables, dev, read_values, range(N_SCORES))
        weights = np.array([*map(fitted_weights, of_scores)])
        return weights, tuple(map(cross_entropy, of_scores, weights))
    both = observe(tables, dev, read_values, (INVERSE_PROB, DIRECT_PROB))
    together = Observations(*map(np.concatenate, zip(*both, strict=True)))
    fitted = fitted_weights(together)
    weights = np.broadcast_to(fitted / fitted.max(), (N_SCORES, len(tables)))
    return np.array(weights), (cross_entropy(together, fitted),)


def _write(out: StrPath, blocks: Iterator[bytes]) -> None:
    with open_write(out) as stream:
        stream.writelines(blocks)


def _chosen(tables: Sequence[Path], how: Combination, n_first: list[int]) -> Iterator[bytes]:
    """Blocks of rows as in the first table, for "fill-up" with scores for the table they are from."""
    for block in blocks_of(united_pairs(tables, "combine"), PAIRS_AT_ONCE):
        chosen = [pair.first for pair in block if how != "back-off" or _is_of_first_source(pair)]
        places = np.array([place for place, _ in chosen], np.int64)
        lines = [row.line for _, row in chosen]
        for place, n_rows in enumerate(np.bincount(places, minlength=len(tables))):
            n_first[place] += int(n_rows)
        if how == "fill-up":
            is_from = places[:, None] == np.arange(1, len(tables))
            yield append_score_columns(lines, np.where(is_from, HERE, ELSEWHERE))
        else:
            yield b"".join([line + b"\n" for line in lines])


def _is_of_first_source(pair: UnitedPair) -> bool:
    """Whether the first table with the source phrase has the pair."""
    return next(row is not None for row, has in zip(*pair[-2:], strict=True) if has)


def _computed(
    tables: Sequence[Path],
    read_values: ReadValues,
    weights: NDArray[np.float64],
    n_first: list[int],
) -> Iterator[bytes]:
    """Blocks of rows with combined scores, and added counts."""
    for block in blocks_of(united_pairs(tables, "combine"), PAIRS_AT_ONCE):
        scores = read_values(block).combined(weights).tolist()
        counts: list[list[float]] = []
        if isinstance(read_values, CountValues):
            columns_of_counts = [each @ weights[0] for each in read_values.counts(block)]
            counts = np.stack(columns_of_counts, axis=1).tolist()
        lines = []
        for place, pair in enumerate(block):
            table, row = pair.first
            n_first[table] += 1
            columns = columns_of(row.line)
            columns[SCORES] = _column(
                b"%.6g %.6g %.6g %.6g" % tuple(scores[place]), columns, SCORES
            )
            if counts:
                text = b"%.10g %.10g %.10g" % tuple(counts[place])
                columns[COUNTS] = _column(text, columns, COUNTS)
            lines.append(BAR.join(columns) + b"\n")
        yield b"".join(lines)


def _column(text: bytes, columns: Sequence[bytes], place: int) -> bytes:
    """A column's text between blanks; none follows the last column of a row."""
    return b" " + text + (b" " if place < len(columns) - 1 else b"")


def read_dev_pairs(path: Path) -> Counter[PhrasePair]:
    """Read the counts of the phrase pairs of a development text.

    It is Moses's `extract` file (source ||| target ||| links, one occurrence per line, in any order), or a
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
            expected = "word links, as Moses's extract writes them, or counts in column 5"
            raise InputError(path, line_number, shown(columns[SCORES]), expected)
    if not pairs:
        raise InputError(path, None, "no rows", "phrase pairs of a development text")
    return pairs


def observe(
    tables: Sequence[Path], dev: Path, read_values: ReadValues, scores: Sequence[int]
) -> list[Observations]:
    """The pairs of a development text in the tables, as observations for each of some scores.

    Raises:
        InputError: no table has a pair of the development text with a score above 0, or a row is malformed.
    """
    wanted = read_dev_pairs(dev)
    pairs = united_pairs(tables, "look up dev pairs")
    found = (pair for pair in pairs if (pair.source, pair.target) in wanted)
    values, masses, counts = [], [], []
    for block in blocks_of(found, PAIRS_AT_ONCE):
        found_values = read_values(block)
        values.append(found_values.values)
        masses.append(found_values.masses)
        counts += [wanted[pair.source, pair.target] for pair in block]
    if not counts:
        raise InputError(dev, None, "no pair of the tables", "pairs that a table has")
    every = Observations(np.concatenate(values), np.concatenate(masses), np.array(counts, float))
    of_scores = [Observations(every.values[:, s], every.masses[:, s], every.counts) for s in scores]
    for score, observations in zip(scores, of_scores, strict=True):
        if not observations.values.any():
            raise InputError(dev, None, f"only pairs whose score {score + 1} is 0", "other pairs")
    return of_scores
