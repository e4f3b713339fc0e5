"""The one door for text: bytes, lines that end at "\\n" only, compression by suffix, whole files or none."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from xopen import xopen

from moses_bridge.errors import InputError

StrPath = str | os.PathLike[str]
STANDARD_STREAM = "-"


def open_read(path: StrPath) -> BinaryIO:
    """Open a file for reading bytes; .gz, .bz2, .xz and .zst are decompressed, "-" is standard input.

    Raises:
        InputError: the file is missing or may not be read.
    """
    if os.fspath(path) == STANDARD_STREAM:
        return sys.stdin.buffer
    try:
        return cast(BinaryIO, xopen(path, "rb", threads=0))
    except OSError as error:
        raise InputError(path, None, error.strerror or str(error), "a readable file") from error


@contextlib.contextmanager
def open_write(path: StrPath) -> Iterator[BinaryIO]:
    """Open a file for writing bytes, compressed by suffix; it appears under its name only when complete.

    "-" is standard output. On an error nothing is left behind and an older file stays as it was.
    What is not a plain file, a pipe or /dev/null say, is written to as it stands; a link is followed.
    """
    if os.fspath(path) == STANDARD_STREAM:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if Path(path).exists() and not Path(path).is_file():
        with xopen(path, "wb", threads=0) as stream:
            yield cast(BinaryIO, stream)
        return
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(
        dir=target.parent, prefix=f".{target.stem}.", suffix="".join(target.suffixes[-1:])
    )
    os.close(handle)
    try:
        with xopen(temporary, "wb", threads=0) as stream:
            yield cast(BinaryIO, stream)
        _publish(Path(temporary), target)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _publish(temporary: Path, target: Path) -> None:
    with temporary.open("rb") as written:
        os.fsync(written.fileno())
    umask = os.umask(0)
    os.umask(umask)
    temporary.chmod(0o666 & ~umask)
    temporary.replace(target)


def read_lines(path: StrPath) -> Iterator[bytes]:
    """Yield the lines of a file without their "\\n"; a carriage return or any other byte is kept.

    Raises:
        InputError: the file cannot be read, or its compressed data is damaged.
    """
    line_number = 0
    with open_read(path) as stream:
        try:
            for line in stream:
                line_number += 1
                yield line[:-1] if line.endswith(b"\n") else line
        except Exception as error:  # each compression has an error class of its own
            raise InputError(
                path, line_number + 1, f"damaged data ({error})", "a complete file", "Make it again"
            ) from error


def read_parallel(*paths: StrPath) -> Iterator[tuple[bytes, ...]]:
    """Yield the lines of several files side by side.

    Raises:
        InputError: one file has fewer lines than another.
    """
    iterators = [read_lines(path) for path in paths]
    line_number = 0
    while True:
        line_number += 1
        lines = [next(iterator, None) for iterator in iterators]
        if all(line is None for line in lines):
            return
        for path, line in zip(paths, lines, strict=True):
            if line is None:
                longer = next(p for p, other in zip(paths, lines, strict=True) if other is not None)
                raise InputError(
                    path,
                    line_number,
                    "the end of the file",
                    f"a line, as {os.fspath(longer)} has one",
                    "Both files must have one line for each sentence",
                )
        yield cast(tuple[bytes, ...], tuple(lines))


def write_lines(path: StrPath, lines: Iterator[bytes] | list[bytes]) -> None:
    """Write lines, each followed by "\\n"; the file appears only when complete."""
    with open_write(path) as stream:
        for line in lines:
            stream.write(line + b"\n")


def count_lines(path: StrPath) -> int:
    """How many lines a file has."""
    return sum(1 for _ in read_lines(path))
