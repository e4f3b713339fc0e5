"""What a network is trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from moses_bridge.base.textio import StrPath
from rescorer.contract.vocabulary import Shortlists

DataKind = Literal["phrase pairs", "text", "parallel text", "linked text"]


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
