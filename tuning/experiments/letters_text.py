"""Pairs of short texts as sentences whose words are letters, or symbols between blanks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from moses_bridge.base.config import AtLeast
from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.machine import n_processors
from moses_bridge.base.text_lines import decoded_line, read_text_lines
from moses_bridge.base.textio import StrPath

Unit = Literal["letters", "symbols"]
Pair = tuple[str, str]
# With a meaning for Moses, or invisible; "&" begins an escape. A blank is a letter, too.
SPECIAL = re.compile(r"[&|<>\[\]\s\x00-\x1f\x7f]")
ESCAPE = re.compile(r"&#(\d+);")


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


def read_pairs(path: Path) -> list[Pair]:
    """Read lines `source <tab> target`; blanks around both are left out.

    Raises:
        InputError: a line is not UTF-8, has no or several tabs or an empty side; or there is no line.
    """
    pairs: list[Pair] = []
    for number, line in enumerate(read_text_lines(path), start=1):
        text = decoded_line(line, path, number)
        fields = [field.strip() for field in text.split("\t")]
        if len(fields) != 2 or not all(fields):
            hint = "`paste SOURCE TARGET` makes such lines of two files"
            raise InputError(path, number, shown(line), "source <tab> target", hint)
        pairs.append((fields[0], fields[1]))
    if not pairs:
        raise InputError(path, None, "no lines", "source <tab> target on each")
    return pairs


def read_sources(path: StrPath) -> list[str]:
    """Read a source a line; blanks around it are left out. InputError if a line is not UTF-8 or has a tab."""
    sources = []
    for number, line in enumerate(read_text_lines(path), start=1):
        sources.append(decoded_line(line, path, number).strip())
        if "\t" in sources[-1]:
            hint = "`cut -f 1` takes the sources of pairs"
            raise InputError(path, number, shown(line), "a source without tabs", hint)
    return sources


def targets_by_source(pairs: Iterable[Pair]) -> dict[str, Counter[str]]:
    """How often each target of a source is in the pairs."""
    found: dict[str, Counter[str]] = {}
    for source, target in pairs:
        found.setdefault(source, Counter())[target] += 1
    return found


def split_units(text: str, unit: Unit) -> bytes:
    """The units of a text with blanks between them; what would mislead Moses is escaped."""
    units = list(text) if unit == "letters" else text.split()
    return " ".join(
        SPECIAL.sub(lambda found: f"&#{ord(found[0])};", each) for each in units
    ).encode()


def joined_units(line: bytes, unit: Unit) -> str:
    """The text of units; undoes `split_units`."""
    text = line.decode("utf-8", "replace").replace(" ", "" if unit == "letters" else " ")
    return ESCAPE.sub(lambda found: chr(int(found[1])), text)
