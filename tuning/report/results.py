"""Results for Python: numbers in DataFrames, and the table or the picture of a report in a notebook."""

from __future__ import annotations

import dataclasses
import html
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from moses_bridge.base.textio import temporary_directory
from tuning.compare.comparison import Comparison, ResultRow
from tuning.compare.output_scores import OutputScores
from tuning.loop.run_directory import TuningRun, with_caution
from tuning.report.comparison_table import comparison_notes, comparison_rows
from tuning.report.pictures import plot_runs
from tuning.report.run_series import weights_by_iteration
from tuning.report.write import write_comparison

# Left out of a comparison's frame, as no number or several; `Comparison.rows` has them.
LEFT_OUT = ("runs", "weights", "precisions", "words", "tuned_for")
# Values inside a row; a row may be without any of them.
PARTS = ("against_baseline", "against_control", "far")


@dataclass(frozen=True)
class Tuned:
    """A finished tuning run: its directory and its history."""

    directory: Path
    run: TuningRun

    @property
    def dev_bleu(self) -> float:
        """Dev BLEU of the kept weights, 0 to 100."""
        return self.run.dev_bleu

    @property
    def weights(self) -> dict[str, list[float]]:
        """The kept weights of each feature."""
        return {name: [*values] for name, values in self.run.weights.items()}

    def __repr__(self) -> str:
        line = f"tuning.Tuned {self.directory}: dev BLEU {self.dev_bleu:.2f}; {self.run.end}"
        return f"<{with_caution(line, self.run.caution)}>"

    def frame(self) -> pd.DataFrame:
        """A row for each decoding of the dev text.

        Returns:
            `bleu`, `length_ratio`, `oracle_bleu`, `pool_bleu` (NaN for a decoding after which nothing was
            optimised), `kept`, and a column `weight NAME` for each weight, absolute values of a row adding up
            to 1. The index is the number of the decoding, from 1.
        """
        numbers = pd.RangeIndex(1, len(self.run.iterations) + 1, name="iteration")
        measured = ("bleu", "length_ratio", "oracle_bleu", "pool_bleu")
        columns = {
            name: pd.array([getattr(each, name) for each in self.run.iterations], dtype="float64")
            for name in measured
        }
        weights = weights_by_iteration(self.run).items()
        named = {f"weight {name}": values for name, values in weights}
        return pd.DataFrame(
            {**columns, "kept": [number == self.run.kept for number in numbers], **named},
            index=numbers,
        )

    def _repr_svg_(self) -> str:
        """The picture of `tuning plot`, for a notebook."""
        with temporary_directory("picture") as folder:
            picture = folder / "run.svg"
            plot_runs([self.directory], picture)
            return picture.read_text()


@dataclass(frozen=True)
class Compared:
    """Systems compared on a test text; `comparison` has all values."""

    comparison: Comparison

    def __repr__(self) -> str:
        rows = (f"{row.system} {row.test_bleu:.2f}" for row in self.comparison.rows)
        return f"<tuning.Compared test BLEU: {', '.join(rows):.1000}>"

    def frame(self) -> pd.DataFrame:
        """A row for each system, its name as the index.

        Returns:
            The numbers of `tuning.compare.comparison.ResultRow` by name; those of a contrast as
            `against_baseline.delta`, `against_baseline.p_value` and so on, NaN where there is none, an
            interval as its two ends; those on sentences far from the training text as `far.test_bleu`.
        """
        return pd.DataFrame([_numbers(row) for row in self.comparison.rows]).set_index("system")

    def notes(self) -> list[str]:
        """How the numbers were made, one line each."""
        return comparison_notes(self.comparison)

    def write(self, out: Path | str) -> str:
        """Write OUT/table.txt, .md, .tex and .json, as `tuning compare` does; return the text of table.txt."""
        return write_comparison(self.comparison, Path(out))

    def _repr_html_(self) -> str:
        """The table of `tuning compare`, for a notebook."""
        notes = "".join(f"<p>{html.escape(note)}</p>\n" for note in self.notes())
        return pd.DataFrame(comparison_rows(self.comparison)).to_html(index=False) + "\n" + notes


def _numbers(row: ResultRow) -> dict[str, object]:
    """A row of a comparison, its parts side by side."""
    values = dataclasses.asdict(row)
    for part in (values, values["far"] or {}):
        for name in LEFT_OUT:
            part.pop(name, None)
    return _flat(values)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, object]:
    """Nested values by dotted names: NaN for unknown ones, no name for missing parts."""
    flat = dict[str, object]()
    for name, value in values.items():
        if name == "interval":
            flat[f"{prefix}low"], flat[f"{prefix}high"] = value
        elif isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        elif value is not None:
            flat[prefix + name] = value
        elif name not in PARTS:
            flat[prefix + name] = math.nan
    return flat


def scores_in_a_row(scores: OutputScores) -> pd.DataFrame:
    """The scores of one file of translations, precisions as `precision1` to `precision4`."""
    values = dataclasses.asdict(scores)
    signatures = " ".join(values.pop("signatures"))
    precisions = values.pop("precisions")
    numbered = {f"precision{n}": value for n, value in enumerate(precisions, start=1)}
    return pd.DataFrame([{**values, **numbered, "signatures": signatures}])
