"""Progress through the lines of a file, with their number estimated from its first megabyte."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from moses_bridge.base.progress import Progress
from moses_bridge.base.textio import COMPRESSIONS, STANDARD_STREAM, StrPath

Item = TypeVar("Item")
Chunk = TypeVar("Chunk", bound=Sized)
GZIP = b"\x1f\x8b"
GZIP_HEADER = 16 + zlib.MAX_WBITS
BYTES_SEEN = 1 << 20
LINES_BEFORE_TOLD, SECONDS_BEFORE_TOLD = 256, 0.1


class LineProgress(Progress):
    """Count of finished lines of a file; the share and the time left are estimates.

    Args:
        label: name of the work.
        path: path of the file. If its lines cannot be estimated, only the count is shown.
        unit: name of its lines, in the plural.
        done: number of lines finished by an earlier run.
        n_parts: number of equal parts of the lines; this is the progress through one of them.
    """

    def __init__(
        self, label: str, path: StrPath, unit: str = "rows", done: int = 0, n_parts: int = 1
    ) -> None:
        n_lines = estimated_lines(path)
        super().__init__(label, None if n_lines is None else n_lines // n_parts, unit, done)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.settle()
        super().__exit__(kind, error, trace)


def track_lines(
    lines: Iterable[Item], label: str, path: StrPath, unit: str = "rows"
) -> Iterator[Item]:
    """Yield the lines of a file, showing the number consumed."""
    with LineProgress(label, path, unit) as progress:
        n_new, last_told = 0, time.monotonic()
        for line in lines:
            yield line
            n_new += 1
            # Telling each line would be a quarter of a filter's time.
            if n_new == LINES_BEFORE_TOLD or time.monotonic() - last_told > SECONDS_BEFORE_TOLD:
                progress.update(n_new)
                n_new, last_told = 0, time.monotonic()
        progress.update(n_new)


def track_blocks(blocks: Iterable[Chunk], label: str, path: StrPath) -> Iterator[Chunk]:
    """Yield blocks of rows of a file, showing the number of rows consumed."""
    with LineProgress(label, path) as progress:
        for block in blocks:
            yield block
            progress.update(len(block))


def estimated_lines(path: StrPath) -> int | None:
    """Estimate the number of lines of a file from its first megabyte.

    Returns:
        The estimate; None for a pipe, an unreadable file, one without a line end in its first megabyte, and
        compressions other than gzip.
    """
    file = Path(path)
    if str(path) == STANDARD_STREAM or not file.is_file():
        return None
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            seen = stream.read(BYTES_SEEN)
    except OSError:
        return None
    if seen.startswith(GZIP):
        n_lines = _packed_lines(seen)
    else:
        n_lines = None if file.suffix in COMPRESSIONS else seen.count(b"\n")
    return round(n_lines * size / len(seen)) if n_lines else None


def _packed_lines(packed: bytes) -> int | None:
    """Line ends in the beginning of a gzip file of one or more members; None if it is damaged."""
    n_lines = 0
    try:
        while packed:
            member = zlib.decompressobj(GZIP_HEADER)
            n_lines += member.decompress(packed).count(b"\n")
            packed = member.unused_data
    except zlib.error:
        return None
    return n_lines
