"""A sample of a phrase table with a model's column: its score against the table's own, and a chart of both."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.json_files import read_json
from moses_bridge.base.progress import track_lines
from moses_bridge.base.textio import read_lines
from moses_bridge.formats.phrase_table import joint_count_or_zero, split_row
from moses_bridge.formats.row_columns import DIRECT_PROB, SCORES, SOURCE, TARGET
from moses_bridge.formats.words import to_number, without_escapes
from tuning.report.page.chart import SEQUENTIAL, SIGHT, Chart, base_spec, number_axis, tooltip

CLASSES = (1, 2, 4, 10, 100)  # the lowest frequency of each class of pairs
MIN_FOR_CORRELATION = 10
N_OWN_SCORES = 4  # of a table that Moses made
NO_PROBABILITY = "unknown-words"


@dataclass(frozen=True)
class ScoredPair:
    """One row of the table.

    Attributes:
        count: how often the pair was seen; 0 if the table has no counts.
        table_score: log p(target | source) by the table, nats.
        model_score: by the model, nats.
    """

    source: str
    target: str
    count: float
    table_score: float
    model_score: float


@dataclass(frozen=True)
class ScoredSample:
    """Pairs of one table, equally many from each class of frequency where there are enough.

    Attributes:
        column: number of the model's score in a row, from 0.
        model: name of the scorer in TABLE.json, "" without such a file.
        classes: the pairs of each class with any, by the lowest frequency in it.
    """

    table: Path
    column: int
    model: str
    n_rows: int
    classes: dict[int, list[ScoredPair]]

    def correlation(self, lowest: int) -> float | None:
        """Spearman's rank correlation of the two scores in a class; None for fewer than ten pairs."""
        pairs = self.classes[lowest]
        scores = np.array([(pair.table_score, pair.model_score) for pair in pairs])
        if len(pairs) < MIN_FOR_CORRELATION or (scores == scores[0]).all(axis=0).any():
            return None
        return float(spearmanr(scores[:, 0], scores[:, 1]).statistic)


def sample_scored_pairs(table: Path, n_points: int, seed: int) -> ScoredSample:
    """Draw pairs of a table with a model's column, n_points at most.

    The column is the one named in TABLE.json, as `rescorer score` writes it, else the last.

    Raises:
        InputError: a row is malformed, has no score besides the four of Moses, or none above 0.
    """
    column, model, is_log = _model_column(table)
    rng = random.Random(seed)
    room = max(1, n_points // len(CLASSES))
    drawn: dict[int, list[tuple[int, bytes]]] = {lowest: [] for lowest in CLASSES}
    seen = dict.fromkeys(CLASSES, 0)
    n_rows = 0
    lines = track_lines(read_lines(table), f"report: {table.name}", table)
    for n_rows, line in enumerate(lines, start=1):
        count = joint_count_or_zero(line)
        lowest = max((each for each in CLASSES if each <= count), default=CLASSES[0])
        seen[lowest] += 1
        kept = drawn[lowest]
        if len(kept) < room:
            kept.append((n_rows, line))
        elif (place := rng.randrange(seen[lowest])) < room:
            kept[place] = (n_rows, line)
    classes = {
        lowest: [_pair(line, table, number, column, is_log) for number, line in sorted(rows)]
        for lowest, rows in drawn.items()
        if rows
    }
    return ScoredSample(table, column, model, n_rows, classes)


def _pair(line: bytes, table: Path, number: int, column: int, is_log: bool) -> ScoredPair:
    columns = split_row(line, table, number)
    scores = [_number(word, table, number) for word in columns[SCORES].split()]
    if len(scores) <= max(N_OWN_SCORES, column):
        found = f"{len(scores)} scores"
        raise InputError(table, number, found, "those of Moses and a model's behind them")
    own, models = scores[DIRECT_PROB], scores[column]
    if not is_log and min(own, models) <= 0:
        found = f"the scores {own:g} and {models:g}"
        raise InputError(table, number, found, "probabilities above 0")
    return ScoredPair(
        columns[SOURCE].strip().decode("utf-8", "replace"),
        columns[TARGET].strip().decode("utf-8", "replace"),
        joint_count_or_zero(line),
        own if is_log else math.log(own),
        models if is_log else math.log(models),
    )


def _number(word: bytes, table: Path, line_number: int) -> float:
    value = to_number(word)
    if not math.isfinite(value):
        raise InputError(table, line_number, f"the score {shown(word)}", "a finite number")
    return value


def _model_column(table: Path) -> tuple[int, str, bool]:
    """Number of the model's first column of probabilities, its scorer, and whether it is a logarithm."""
    described = Path(f"{table}.json")
    if not described.exists():
        return -1, "", False
    made: Any = read_json(described)
    try:
        is_log = made["settings"].get("column_format") == "log"
        for number, column in enumerate(made["columns"], start=int(made["n_old_scores"])):
            if column["column"] != NO_PROBABILITY:
                return number, str(column["scorer"]), is_log
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        found = f"{type(error).__name__}: {error}"
        raise InputError(described, None, found, "what rescorer score writes") from error
    raise InputError(described, None, "no column of probabilities", "one at least")


def class_name(lowest: int, classes: Sequence[int] = CLASSES) -> str:
    """The name of a class of numbers by its lowest one: "2–3", "100+"."""
    following = [other for other in classes if other > lowest]
    if not following:
        return f"{lowest}+"
    last = following[0] - 1
    return str(lowest) if last == lowest else f"{lowest}–{last}"


def scatter_chart(sample: ScoredSample, number: int) -> Chart:
    """The model's score against the table's, one point for each phrase pair."""
    rows = [
        {
            "pair": without_escapes(f"{pair.source} → {pair.target}"),
            "table": pair.table_score,
            "model": pair.model_score,
            "frequency": class_name(lowest),
            "count": pair.count,
        }
        for lowest, pairs in sample.classes.items()
        for pair in pairs
    ]
    spec = base_spec(rows, "The model's log-probability of phrase pairs against the table's.", 380)
    names = [class_name(lowest) for lowest in sample.classes]
    scale = {"domain": names, "range": list(SEQUENTIAL[-len(names) :])}
    spec["params"] = [SIGHT]
    spec["mark"] = {"type": "point", "filled": True, "size": 22, "opacity": 0.65, "aria": False}
    spec["encoding"] = {
        "x": number_axis("table", "log p(target | source), the table (nats)"),
        "y": number_axis("model", "the model (nats)"),
        "color": {
            "field": "frequency",
            "type": "ordinal",
            "sort": names,
            "title": "times seen",
            "scale": scale,
        },
        "tooltip": tooltip("pair:N", "count:N", "table:Q", "model:Q", digits=2),
    }
    note = (
        f"{len(rows):,} of {sample.n_rows:,} pairs, as many from each class of frequency as there are room and "
        "pairs for. Drag to move; zoom with the buttons or with Ctrl and the wheel."
    )
    name = f"scatter-{number}"
    title = f"{Path(sample.model).name or 'Last column'} against the table"
    return Chart(name, title, note, spec, "canvas", "sight", ("table", "model"))
