"""Text to training data: sentences, and sentences with their sources and word links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moses_bridge.errors import InputError
from moses_bridge.textio import StrPath, read_lines, read_parallel
from rescorer.contract import Data


@dataclass(frozen=True)
class ParallelText:
    """Sentence pairs; those with an empty side are left out.

    Attributes:
        sources: one a pair.
        targets: one a pair.
        links: in Pharaoh format, one a pair; None where none are wanted.
    """

    sources: list[bytes]
    targets: list[bytes]
    links: list[bytes] | None

    def content(self) -> Iterator[bytes]:
        """All of it as bytes."""
        yield from self.sources
        yield from self.targets
        yield from self.links or ()


def read_text(path: StrPath) -> list[bytes]:
    """The sentences of a text, empty lines left out.

    Raises:
        InputError: there is none.
    """
    sentences = [line for line in read_lines(path) if line.strip()]
    if not sentences:
        raise InputError(path, None, "no sentence", "target text, one sentence a line")
    return sentences


def read_parallel_text(data: Data) -> ParallelText:
    """The sentence pairs of two texts, with their links if a file of these is named.

    Raises:
        InputError: the files have not as many lines, or no pair is left.
    """
    paths = [path for path in (data.source, data.path, data.links) if path is not None]
    rows = [row for row in read_parallel(*paths) if row[0].strip() and row[1].strip()]
    if not rows:
        raise InputError(data.path, None, "no sentence pair", "parallel text, one sentence a line")
    sides = [list(column) for column in zip(*rows, strict=True)]
    return ParallelText(sides[0], sides[1], sides[2] if data.links is not None else None)
