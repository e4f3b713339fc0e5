"""Settings of `tuning run improve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from moses_bridge.base.config import AtLeast
from moses_bridge.base.machine import n_processors

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
