"""Settings of `tuning letters train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from moses_bridge.base.config import AtLeast
from moses_bridge.base.machine import n_processors
from tuning.experiments.letters_text import Unit
from tuning.metrics.by_name import MetricName


@dataclass(frozen=True, kw_only=True)
class LettersSettings:
    """What a system of letters is made of.

    Attributes:
        pairs: Lines `source <tab> target`; a source may have several lines.
        out: Directory of the system.
        dev: Lines to tune weights on. [default: a tenth of the sources of PAIRS, at most 1,000]
        units: Units of source and target: letters, or symbols between blanks, such as phones.
        metric: Metric that the weights maximise; letters are words, so word-accuracy is that of letters.
        nnjm: Train an NNJM and use it in the search.
        config: TOML file that changes settings of the steps, in tables build, nnjm and tune.
        seed: Seed of the random numbers.
        jobs: Number of processes. [default: one per processor]
    """

    pairs: Path
    out: Path
    dev: Path | None = None
    units: tuple[Unit, Unit] = ("letters", "letters")
    metric: MetricName = "cer"
    nnjm: bool = False
    config: Path | None = None
    seed: int = 1
    jobs: Annotated[int, AtLeast(1)] = n_processors()
