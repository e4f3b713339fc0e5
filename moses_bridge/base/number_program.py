"""A program kept open that answers each line with a number.

Lines come on its standard input in blocks, each ended by an empty line. It answers a block with one number a
line, as many as the block has lines and in their order, and then an empty line, after which it must flush its
output. It may answer line by line or after reading the whole block. It ends when its input does.
"""

from __future__ import annotations

import contextlib
import math
import shlex
import threading
from collections.abc import Sequence

from moses_bridge.base.errors import shown
from moses_bridge.base.programs import PATIENCE_SECONDS, InteractiveProgram
from moses_bridge.base.progress import print_note

LONGEST_ANSWER = 1000  # bytes of a line with one number
NOTE_SECONDS = 60.0  # without an answer to a block, until the user is told why that may be


class WrongAnswer(Exception):
    """A line, counted from 0 within its block, whose answer is no number; `expected` is "" for a number."""

    def __init__(self, place: int, found: str, hint: str, expected: str = "") -> None:
        super().__init__(place, found, hint, expected)
        self.place, self.found, self.hint, self.expected = place, found, hint, expected


class NumberProgram:
    """A program speaking the protocol of this module.

    Raises:
        ToolError: it cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.program = InteractiveProgram(command)
        self._command = shlex.join(command)
        self._gave = f"This is the answer of {self._command}"

    def numbers(self, lines: Sequence[bytes]) -> list[float]:
        """The answers to a block of lines.

        Raises:
            WrongAnswer: it gives no number for a line, or ends; it is then ended.
        """
        if not lines:
            return []
        # A program that answers line by line fills its output while the block is still being written.
        block = b"\n".join([*lines, b"", b""])
        writer = threading.Thread(target=self._write, args=(block,), daemon=True)
        told = (
            f"{self._command}: no answer to a block of {len(lines):,} lines for {NOTE_SECONDS:.0f} s; "
            "a program must end its answer with an empty line and flush its output"
        )
        note = threading.Timer(NOTE_SECONDS, print_note, [told])
        note.daemon = True
        writer.start()
        note.start()
        try:
            numbers = [self._number(place, len(lines)) for place in range(len(lines))]
            self._check_end(len(lines))
        except BaseException:
            self.program.kill()
            raise
        finally:
            note.cancel()
        writer.join()
        return numbers

    def _write(self, block: bytes) -> None:
        # The end of a program is noticed when reading.
        with contextlib.suppress(OSError, ValueError):
            self.program.input.write(block)
            self.program.input.flush()

    def _line(self, place: int) -> bytes:
        line = self.program.output.readline(LONGEST_ANSWER)
        if line:
            return line.strip()
        status = self.program.status(PATIENCE_SECONDS)
        how = "closed its output" if status is None else f"ended with status {status}"
        hint = ": ".join([f"{self._command} {how}", *self.program.messages().splitlines()[-1:]])
        raise WrongAnswer(place, "the end of the answer instead of the value", hint)

    def _number(self, place: int, n_lines: int) -> float:
        line = self._line(place)
        try:
            number = float(line) if b"_" not in line else math.nan
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            none = f"no value ({place} came for the {n_lines} lines of its block)"
            found = f"the value {shown(line)}" if line else none
            raise WrongAnswer(place, found, self._gave)
        return number

    def _check_end(self, n_lines: int) -> None:
        if line := self._line(n_lines - 1):
            expected = f"an empty line after the {n_lines} values of a block"
            found = f"{shown(line)} behind the value"
            raise WrongAnswer(n_lines - 1, found, self._gave, expected)
