"""What a network is trained on, and how it reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from moses_bridge.base.textio import StrPath
from rescorer.contract.choices import Reading
from rescorer.contract.vocabulary import Shortlists

DataKind = Literal["phrase pairs", "text", "parallel text", "linked text"]

PairReading = Literal["as-is", "reversed-sides"]

TextReading = Literal["as-is", "right-to-left"]

# Keys of settings in earlier versions, and what is written now.
FORMER_READING_KEYS = {
    "reverse_sides": 'reading = "reversed-sides"',
    "right_to_left": 'reading = "right-to-left"',
}


def reverses_sides(reading: Reading) -> bool:
    """Whether targets are read as sources, and sources as targets."""
    return reading in ("reversed-sides", "reversed-sides-right-to-left")


def goes_right_to_left(reading: Reading) -> bool:
    """Whether the last word of a sentence is predicted first."""
    return reading in ("right-to-left", "reversed-sides-right-to-left")


@dataclass(frozen=True)
class Data:
    """Files of the data of a training.

    Attributes:
        path: a phrase table, or target text, one sentence a line.
        source: the source text of parallel text, line by line.
        links: its word links in Pharaoh format, line by line.
        texts: source and target text whose words are counted for the shortlists of a model of phrase
            pairs; None counts those of the pairs.
        cache: a directory keeping the pairs of a phrase table for later trainings.
        shortlists: those of the network that is trained further; None chooses them from the data.
    """

    path: StrPath
    source: StrPath | None = None
    links: StrPath | None = None
    texts: tuple[StrPath, StrPath] | None = None
    cache: StrPath | None = None
    shortlists: Shortlists | None = None
