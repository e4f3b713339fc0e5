"""Settings of a run of an experiment, of `tuning run improve` and of `tuning letters train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from moses_bridge.base.config import AtLeast, Limited
from moses_bridge.base.machine import n_processors

Scale = Literal["tiny", "small", "full"]
Unit = Literal["letters", "symbols"]


@dataclass(frozen=True, kw_only=True)
class RunSettings(Limited):
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


LINKS_NAMES = ("aligned.grow-diag-final-and.gz", "aligned.grow-diag-final-and")


@dataclass(frozen=True, kw_only=True)
class ImproveSettings:
    """A system with its texts, and limits of the search for a better one.

    Attributes:
        ini: moses.ini of the system.
        train: Prefix of the tokenised training text: corpus/train for corpus/train.en and corpus/train.fr.
        links: Word links of the training text. [default: those next to the ini, else made]
        dev: Prefix of the dev text, which weights are tuned on and the better system is chosen by.
        test: Prefix of the test text, which shows the gain.
        languages: Codes of source and target language, the suffixes of the texts.
        out: Directory of the better system.
        minutes: Minutes that all of it may take. [default: what gains most for its time, however long]
        keep_search: Leave out what Moses cannot load: columns of the table and reranked lists alone.
        experiments: TOML file that changes the experiment; may be given several times.
        jobs: Number of processors to use. [default: all]
        dry_run: Check, and print what would be done and how long it takes; write nothing.
    """

    ini: Path
    train: Path | None = None
    links: Path | None = None
    dev: Path
    test: Path
    languages: tuple[str, str]
    out: Path
    minutes: Annotated[float | None, AtLeast(1)] = None
    keep_search: bool = False
    experiments: tuple[Path, ...] = ()
    jobs: Annotated[int, AtLeast(1)] = n_processors()
    dry_run: bool = False

    @property
    def texts(self) -> dict[str, Path]:
        """The prefixes of the given texts, by their use."""
        given = {"train": self.train, "dev": self.dev, "test": self.test}
        return {part: prefix for part, prefix in given.items() if prefix is not None}

    def found_links(self) -> Path | None:
        """The word links that are given, or next to the ini."""
        beside = (self.ini.parent / name for name in LINKS_NAMES)
        return self.links or next((path for path in beside if path.is_file()), None)


@dataclass(frozen=True, kw_only=True)
class LettersSettings:
    """What a system of letters is made of.

    Attributes:
        pairs: Lines `source <tab> target`; a source may have several lines.
        out: Directory of the system.
        units: Units of source and target: letters, or symbols between blanks, such as phones.
        metric: Metric that the weights maximise; letters are words, so word-accuracy is that of letters.
        nnjm: Train an NNJM and use it in the search.
        config: TOML file that changes settings of the steps, in tables build, nnjm and tune.
        seed: Seed of the random numbers.
        jobs: Number of processes. [default: one per processor]
    """

    pairs: Path
    out: Path
    units: tuple[Unit, Unit] = ("letters", "letters")
    metric: str = "cer"
    nnjm: bool = False
    config: Path | None = None
    seed: int = 1
    jobs: Annotated[int, AtLeast(1)] = n_processors()
