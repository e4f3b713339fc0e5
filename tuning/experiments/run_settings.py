"""Settings of a run of an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.machine import n_processors

Scale = Literal["tiny", "small", "full"]


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Where an experiment is made, and from what; paths have no character with a meaning for make or a shell.

    Attributes:
        out: Folder of the build; what is finished there is not made again.
        corpus: Folder with tokenised {train,dev,test}.SOURCE and .TARGET, and optionally .groups, the document
            of each sentence. [default: fetched through apt]
        model: Folder with moses.ini and its tables. [default: made of the training text]
        languages: Source and target language.
        scale: Settings of the package's experiments: tiny is a smoke run, full is all data.
        links: Word links of the training text. [default: those beside the model]
        lists: N-best lists of the training text. [default: made by systems that have not seen the sentences]
        networks: Folder of another build whose networks score the tables. [default: OUT]
        inputs: Source text that the filtered tables serve. [default: dev and test text]
        trained: Source side of a training text, for counting near copies. [default: that of the corpus]
        changes: TOML that replaces keys of the experiment: "seeds.runs = [1, 2]".
        goals: File below OUT to make, with all it needs. [default: the tables of the experiment]
        jobs: Processors to use. [default: all]
        at_once: Steps at a time. [default: four at most, with a processor and 1.5 GB of free memory each]
        dry_run: Print the steps to do with their times; do and write nothing.
    """

    out: Path
    corpus: Path | None = None
    model: Path | None = None
    languages: tuple[str, str] = ("en", "fr")
    scale: Scale = "small"
    links: Path | None = None
    lists: Path | None = None
    networks: Path | None = None
    inputs: tuple[Path, ...] = ()
    trained: tuple[Path, ...] = ()
    changes: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()
    jobs: Annotated[int, AtLeast(1)] = n_processors()
    at_once: Annotated[int | None, AtLeast(1)] = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        check_limits(self)
