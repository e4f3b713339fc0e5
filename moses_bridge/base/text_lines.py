"""Lines of texts: sources, targets, references and translations, as people save them.

Editors add a byte order mark before the first line, and a carriage return to each one. Both would become parts
of words, so they are taken off, and said once. Tables, lists, models and inis keep their bytes: see `textio`.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator
from functools import cache
from typing import cast

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath, read_lines


def read_text_lines(path: StrPath) -> Iterator[bytes]:
    """Yield the lines of a text without their "\\n", carriage returns before it, and a byte order mark.

    When the whole text has been read, a line on standard error says what was taken off.

    Raises:
        InputError: as `textio.read_lines`.
    """
    n_returns, n_marks = 0, 0
    for number, line in enumerate(read_lines(path)):
        if number == 0 and line.startswith(codecs.BOM_UTF8):
            line, n_marks = line.removeprefix(codecs.BOM_UTF8), 1
        if line.endswith(b"\r"):
            line, n_returns = line.rstrip(b"\r"), n_returns + 1
        yield line
    found = ["the byte order mark before line 1"] * n_marks
    if n_returns:
        found.append(f"the carriage return at the end of {n_returns:,} of {number + 1:,} lines")
    if found:
        say(f"note: {os.fspath(path)}: left out {' and '.join(found)}")


def read_parallel(*paths: StrPath) -> Iterator[tuple[bytes, ...]]:
    """Yield the lines of several texts together, one of each; see `read_text_lines`.

    InputError if one file has fewer lines than another.
    """
    iterators = [read_text_lines(path) for path in paths]
    line_number = 0
    while True:
        line_number += 1
        lines = [next(iterator, None) for iterator in iterators]
        if all(line is None for line in lines):
            return
        for path, line in zip(paths, lines, strict=True):
            if line is None:
                longer = next(p for p, other in zip(paths, lines, strict=True) if other is not None)
                expected = f"a line, as {os.fspath(longer)} has one"
                hint = "Both files must have one line for each sentence"
                raise InputError(path, line_number, "the end of the file", expected, hint)
        yield cast(tuple[bytes, ...], tuple(lines))


def decoded_line(line: bytes, path: StrPath, line_number: int) -> str:
    """A line of UTF-8 as text; InputError if it is none."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        found = f"bytes that are {error.reason}"
        raise InputError(path, line_number, found, "UTF-8 text") from error


@cache
def say(text: str) -> None:
    """Print a line on standard error despite a progress bar, once a process; "" prints none.

    Texts are read several times, and decoded with many weights.
    """
    if not text:
        return
    from tqdm import tqdm  # most commands have nothing to say

    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()
