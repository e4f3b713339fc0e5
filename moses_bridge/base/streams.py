"""The standard streams of a command: what is printed, and streams that are closed or full."""

from __future__ import annotations

import io
import os
import re
import sys
from typing import Any

# Control characters could rule a terminal: all but tab, the end of a line, and the carriage return that begins
# what a progress bar prints.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|(?s:(?<=.))\r(?!\n)")
ESCAPES = "backslashreplace"
IF_CLOSED = (os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)  # so that reading 0 and writing 1 are errors


def mend_streams() -> None:
    """Make standard error a stream that never fails, and let no control character reach the terminal.

    What cannot be printed on standard error is lost, since no work depends on it. A closed standard stream
    is replaced; otherwise the next file that is opened would be taken for it. Names of files that are no
    UTF-8 are printed as they are on standard output, and escaped on standard error and on a terminal.
    """
    for number, flags in enumerate(IF_CLOSED):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # the lowest free number
    if sys.stdin is None:
        sys.stdin = open(0)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w")  # noqa: SIM115
    elif sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout = _Printed(sys.stdout.buffer, sys.stdout.encoding, ESCAPES, None, True)
        else:
            sys.stdout.reconfigure(errors="surrogateescape")
    if sys.stderr is sys.__stderr__:
        messages = io.BufferedWriter(_Messages(2, "w", closefd=False))
        encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
        sys.stderr = _Printed(messages, encoding, ESCAPES, None, True)


def cleaned(text: str) -> str:
    r"""A text with its control characters as escapes, such as \x1b."""
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


class _Printed(io.TextIOWrapper):
    """Text for a person."""

    def write(self, text: str) -> int:
        super().write(cleaned(text))
        return len(text)


class _Messages(io.FileIO):
    """Standard error."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)
