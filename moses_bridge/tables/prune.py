"""Pruning of phrase tables: by significance, by a score, or by both in turn.

The significance of a phrase pair is Fisher's exact test on its counts (Johnson, Martin, Foster & Kuhn 2007,
section 3): of N occurrences, C(s) have the source phrase, C(t) the target phrase and C(s, t) both. By chance,
the number of common ones would be hypergeometric, and

    p = sum over k >= C(s, t) of  binom(C(s), k) binom(N - C(s), C(t) - k) / binom(N, C(t)).

There the counts are of sentence pairs; here of extracted pairs, as found in the table. A pair occurring
once, with each side occurring once, has p = 1 / N in either case.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from moses_bridge.base.config import AtLeast, AtMost, check_limits
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import track, track_lines
from moses_bridge.base.textio import is_stream, read_lines, write_lines
from moses_bridge.formats.moses_ini import MosesIni, read_ini
from moses_bridge.formats.moses_ini_edits import moved_to, path_like, with_path, write_ini
from moses_bridge.formats.phrase_table import pair_counts, parse_row
from moses_bridge.formats.words import split_words

SIGNIFICANCE = "significance"
NEGLIGIBLE = -40.0  # natural log, relative to the sum so far: beyond the digits of a float64


@dataclass(frozen=True)
class PruneConfig:
    """Settings of `prune_table`.

    Attributes:
        share: share of the rows to keep.
        by: values ordering the rows, the best first: "significance" (Fisher's exact test on the counts in
            column 5), or the number of a score from 1, as "3" for p(target | source). Where rows are
            equal in the first value, the next one decides.
        n_occurrences: number of phrase pairs extracted from the whole corpus. The default is the sum of
            the counts in the table, which is too small for a filtered table.
    """

    share: Annotated[float, AtLeast(0), AtMost(1)] = 0.5
    by: tuple[str, ...] = (SIGNIFICANCE,)
    n_occurrences: Annotated[int, AtLeast(1)] | None = None

    def __post_init__(self) -> None:
        check_limits(self)
        if not self.by:
            raise ConfigError(f"by: expected {SIGNIFICANCE} or the number of a score")
        for name in self.by:
            if name != SIGNIFICANCE and not (name.isdecimal() and int(name)):
                raise ConfigError(f"by: found {name!r}, expected {SIGNIFICANCE} or a number from 1")


@dataclass(frozen=True)
class PruneReport:
    """The size of a pruned table; n_words are the source words with rows, whose best one always stays."""

    n_rows: int
    n_kept: int
    n_words: int


def prune_table(
    table: Path,
    out: Path,
    config: PruneConfig,
    ini: Path | None = None,
    ini_out: Path | None = None,
) -> PruneReport:
    """Write the best rows of a table, unchanged and in order, and an ini with its path (relative ones stay so).

    A source of one word keeps its best row, since a word without any translation costs more than a bad one. The
    table is read twice; meanwhile each row needs 8 bytes for each value ordering the rows.

    Raises:
        InputError: a row is malformed or lacks a value ordering the rows, or the ini does not name the table.
        ConfigError: the settings do not fit together, or a file would overwrite itself.
    """
    _check_paths(table, out, ini, ini_out)
    changed = None
    if ini is not None and ini_out is not None:
        changed = _with_table(ini, table, out, ini_out)
    values, first_rows, words = _read_values(table, config)
    order = np.lexsort([-column for column in values[::-1]])
    kept = _kept_rows(order, first_rows, words, round(config.share * len(order)))
    rows = track(read_lines(table), "prune", len(kept), "rows")
    write_lines(out, (row for row, stays in zip(rows, kept, strict=True) if stays))
    if changed is not None and ini_out is not None:
        write_ini(changed, ini_out)
    return PruneReport(len(order), int(kept.sum()), int(words.sum()))


def _check_paths(table: Path, out: Path, ini: Path | None, ini_out: Path | None) -> None:
    if (ini is None) != (ini_out is None):
        raise ConfigError("--ini and --ini-out belong together")
    if is_stream(table):
        raise ConfigError(f"{table} is read twice: name a file")
    model = [] if ini is None else read_ini(ini).files()
    refuse_overwriting([out] if ini_out is None else [out, ini_out], [table, *model])


def _with_table(ini: Path, table: Path, out: Path, ini_out: Path) -> MosesIni:
    """The ini moved to another place, with another file for a table."""
    parsed = read_ini(ini)
    for feature in parsed.of_kind("PhraseDictionaryMemory"):
        if parsed.file(feature.arguments["path"]).resolve() == table.resolve():
            place = path_like(parsed, feature, out, ini_out.parent)
            return with_path(moved_to(parsed, ini_out.parent), feature.name, place)
    raise InputError(ini, None, f"no PhraseDictionaryMemory with path={table}", "the table's ini")


def _read_values(
    table: Path, config: PruneConfig
) -> tuple[list[NDArray[np.float64]], NDArray[np.int64], NDArray[np.bool_]]:
    """The values ordering the rows, the first row of each source, and whether that source is one word."""
    scores: dict[str, array[float]] = {name: array("d") for name in config.by}
    counts = [array("d"), array("d"), array("d")]
    first_rows, words = array("q"), array("b")
    last_source, n_scores = b"", None
    rows = track_lines(read_lines(table), "read scores", table)
    for number, line in enumerate(rows, start=1):
        row = parse_row(line, table, number, n_scores)
        if n_scores is None:
            n_scores = len(row.scores)
            for name in config.by:
                if name != SIGNIFICANCE and int(name) > n_scores:
                    expected = f"a score {name} to order rows by"
                    raise InputError(table, 1, f"{n_scores} scores", expected)
        if row.source != last_source:
            last_source = row.source
            first_rows.append(number - 1)
            words.append(len(split_words(row.source)) == 1)
        for name, column in scores.items():
            if name != SIGNIFICANCE:
                column.append(row.scores[int(name) - 1])
        if SIGNIFICANCE in scores:
            for column, count in zip(counts, pair_counts(line, table, number), strict=True):
                column.append(count)
    if not first_rows:
        raise InputError(table, None, "no rows", "a phrase table")
    values = {name: np.array(column) for name, column in scores.items()}
    if SIGNIFICANCE in scores:
        values[SIGNIFICANCE] = _significance(table, counts, config.n_occurrences)
    return [values[name] for name in config.by], np.array(first_rows), np.array(words, np.bool_)


def _significance(
    table: Path, counts: Sequence[array[float]], n_occurrences: int | None
) -> NDArray[np.float64]:
    target, source, joint = (np.array(column) for column in counts)
    joint = np.minimum(joint, np.minimum(source, target))
    least = float((source + target - joint).max())  # a filtered table may have fewer than that
    n = n_occurrences or max(float(joint.sum()), least)
    if n < least:
        found = f"counts of {least:.0f} together"
        raise InputError(table, None, found, f"at most n_occurrences, {n:.0f}")
    return significance(joint, source, target, n)


def _kept_rows(
    order: NDArray[np.int64], first_rows: NDArray[np.int64], words: NDArray[np.bool_], n_kept: int
) -> NDArray[np.bool_]:
    """Whether each row is kept, (n_rows,): the best one of each word, then the best ones of all."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    best = np.minimum.reduceat(rank, first_rows)[words]
    kept = np.zeros(len(order), np.bool_)
    kept[order[best]] = True
    others = order[~kept[order]]
    kept[others[: max(0, n_kept - len(best))]] = True
    return kept


def significance(
    joint: NDArray[np.float64],
    source: NDArray[np.float64],
    target: NDArray[np.float64],
    n_occurrences: float,
) -> NDArray[np.float64]:
    """-log p of pairs, natural log, *Shape:* (n_pairs,); larger values are more significant.

    The counts are C(s, t), C(s) and C(t) of each pair, *Shape:* (n_pairs,), the first at most either other one;
    n_occurrences is N, at least C(s) + C(t) - C(s, t) of every pair.
    """
    counts = np.stack([joint, source, target], axis=1)
    distinct, places = np.unique(counts, axis=0, return_inverse=True)
    return np.asarray(-_log_tails(distinct, n_occurrences)[places.reshape(-1)])


def _log_tails(counts: NDArray[np.float64], n: float) -> NDArray[np.float64]:
    """Log p of distinct counts, *Shape:* (n_distinct, 3) -> (n_distinct,)."""
    joint, source, target = counts.T
    highest = np.minimum(source, target)
    tails = _log_term(joint, source, target, n)
    peak = (source + 1) * (target + 1) / (n + 2)  # terms fall from here on
    k = joint.copy()
    going = np.flatnonzero(k < highest)
    while len(going):
        k[going] += 1
        terms = _log_term(k[going], source[going], target[going], n)
        tails[going] = np.logaddexp(tails[going], terms)
        more = (terms - tails[going] > NEGLIGIBLE) | (k[going] < peak[going])
        going = going[more & (k[going] < highest[going])]
    return np.minimum(tails, 0.0)


def _log_term(
    k: NDArray[np.float64], source: NDArray[np.float64], target: NDArray[np.float64], n: float
) -> NDArray[np.float64]:
    """Log of the hypergeometric probability of k common occurrences."""
    chosen = _log_binom(source, k) + _log_binom(n - source, target - k)
    return np.asarray(chosen - _log_binom(n, target))


def _log_binom(n: NDArray[np.float64] | float, k: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(gammaln(np.add(n, 1)) - gammaln(k + 1) - gammaln(np.subtract(n, k) + 1))
