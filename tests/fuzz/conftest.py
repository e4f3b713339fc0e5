"""Damage for files of Moses, always the same for the same seed.

FUZZ_TABLES says how many phrase tables are damaged row by row; a tenth of invented ones and a quarter of
damaged compressed ones come to it. It is 300 by default; under `make fuzz` 80,000, which makes 108,000 tables.
FUZZ_CASES is the number of damaged files of each other kind, and of all records together: 300, or 20,000.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

FEW = 300
N_CASES = int(os.environ.get("FUZZ_CASES", FEW))
N_TABLES = int(os.environ.get("FUZZ_TABLES", FEW))
SECONDS = 10.0  # of a processor, for one file
KIND = "damaged: "  # begins the property of a test that says how many files it made

# What has broken readers of Moses's files before, or might.
TOKENS = (
    *(
        b"|||",
        b"||||",
        b" ||| ",
        b"|||||| ",
        b"|",
        b"a|b",
        b"||| |||",
        b"\r",
        b"\r\n",
        b"\n",
        b"\n\n",
    ),
    *(b" ", b"  ", b"\t", b"\x0b", b"\x0c", b"\0", b"\x1c", b"\x85", b"\xa0", b"\xe9", b"\xff\xfe"),
    *(b"\xc2\xa0", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe3\x80\x80", b"\xef\xbb\xbf", b"\xed\xa0\x80"),
    *(b"[X]", b"[X][X]", b"[a]", b"[", b"]", b"{{", b"}}", b"{{Tree a}}", b"&#124;", b"#", b"="),
    *(b"nan", b"inf", b"-1", b"1e999", b"-1e999", b"1_0", b"0x1", b"1,0", b"--", b"1e-400", b"+1"),
    *(b"0-0", b"9-9", b"0-", b"-", b"999999999999999999999", b"1", b"0", b"'", b'"', b"\\", b"%s"),
)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many files there were, by kind: the processes of `-n` send it with their results."""
    totals: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, number in report.user_properties:
                if name.startswith(KIND):
                    totals[name.removeprefix(KIND)] += number
    if max(N_CASES, N_TABLES) > FEW:
        for name, number in totals.items():
            terminalreporter.write_line(f"{name}: {number:,}")


@contextmanager
def in_time(text: bytes) -> Iterator[None]:
    """The block, which reads a file, takes 10 seconds of a processor at most; what goes wrong shows the file.

    One that never ends meets the time limit of the test, and is shown then.
    """
    start = time.process_time()
    try:
        yield
    except BaseException as error:
        error.add_note(f"after {time.process_time() - start:.1f} s, in {text[:1000]!r}")
        raise
    assert time.process_time() - start < SECONDS, text[:1000]


class Mutator:
    """Changes text at random places.

    Args:
        seed: which changes.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def mutated(self, lines: Sequence[bytes]) -> bytes:
        """The lines as one text, with up to four changes of lines or bytes."""
        rng, changed = self.rng, list(lines)
        for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
            changes: list[Callable[[list[bytes]], None]] = [self._in_line] * 6
            changes += [self._repeat_line, self._swap_lines, self._drop_column, self._cut_line]
            rng.choice(changes)(changed)
        text = b"".join(line + b"\n" for line in changed)
        return text[:-1] if rng.random() < 0.05 else text

    def damaged(self, data: bytes) -> bytes:
        """The bytes with some cut off or changed."""
        place = self.rng.randrange(len(data))
        if self.rng.random() < 0.5:
            return data[:place]
        return data[:place] + self.rng.randbytes(self.rng.randint(1, 4)) + data[place + 1 :]

    def _in_line(self, lines: list[bytes]) -> None:
        number = self.rng.randrange(len(lines))
        line = lines[number]
        start = self.rng.randint(0, len(line))
        if self.rng.random() < 0.5:  # at the border of a word or a column
            start = line.find(b" ", start) + 1
        end = start + self.rng.choice((0, 0, 1, 3))
        new = self.rng.choice((b"", self.rng.randbytes(1), self.rng.choice(TOKENS)))
        lines[number] = line[:start] + new + line[end:]

    def _repeat_line(self, lines: list[bytes]) -> None:
        lines.insert(self.rng.randint(0, len(lines)), self.rng.choice(lines))

    def _swap_lines(self, lines: list[bytes]) -> None:
        self.rng.shuffle(lines)

    def _drop_column(self, lines: list[bytes]) -> None:
        number = self.rng.randrange(len(lines))
        columns = lines[number].split(b"|||")
        del columns[self.rng.randrange(len(columns))]
        lines[number] = b"|||".join(columns)

    def _cut_line(self, lines: list[bytes]) -> None:
        number = self.rng.randrange(len(lines))
        lines[number] = lines[number][: self.rng.randint(0, len(lines[number]))]


@pytest.fixture(scope="session")
def n_cases() -> int:
    """How many files to make."""
    return N_CASES


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """Says how many files of a kind a test made."""
    return lambda kind, number: record_property(f"{KIND}{kind}", number)


@pytest.fixture
def mutator() -> Mutator:
    """Changes that are the same in each run."""
    return Mutator(20260)
