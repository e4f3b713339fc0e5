"""What the page is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ReportInputs:
    """The inputs of a report.

    Attributes:
        runs: Run directories of `tuning tune`.
        tables: table.json of tuning compare; adds its runs. May be given several times.
        source: Tokenised test text whose translations are shown.
        references: Tokenised reference; may be given several times.
        models: Model directory with its training log; those used by the runs are found without it.
        scored: Phrase table with the column of a model; may be given several times.
        maps: Map written by `rescorer map`: words.json or phrases.json.
        steps: Log written by `moses-bridge step`.
        title: Heading of the page.
        n_points: Largest number of pairs to show from a scored table.
        seed: Seed of the random numbers.
    """

    runs: Sequence[Path] = ()
    tables: Sequence[Path] = ()
    source: Path | None = None
    references: Sequence[Path] = ()
    models: Sequence[Path] = ()
    scored: Sequence[Path] = ()
    maps: Sequence[Path] = ()
    steps: Path | None = None
    title: str = "Tuning report"
    n_points: int = 3000
    seed: int = 1
