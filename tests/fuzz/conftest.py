"""Damage for files of Moses, always the same for the same seed.

FUZZ_CASES says how many files each test makes: 300 by default, 20,000 under `make fuzz`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence

import pytest

N_CASES = int(os.environ.get("FUZZ_CASES", "300"))

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
def mutator() -> Mutator:
    """Changes that are the same in each run."""
    return Mutator(20260)
