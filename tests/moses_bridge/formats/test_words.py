from __future__ import annotations

import random
import re

import pytest

from moses_bridge.formats.words import split_words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", []),
        (b" \t ", []),
        (b"a\tb  c ", [b"a", b"b", b"c"]),
        # Letters to Moses: a carriage return, a form feed, U+00A0 and U+2028.
        (b"a\r", [b"a\r"]),
        (b"a\x0cb \x0b", [b"a\x0cb", b"\x0b"]),
        (b"a\xc2\xa0b \xe2\x80\xa8", [b"a\xc2\xa0b", b"\xe2\x80\xa8"]),
        (b"\x1c\x85 \x00", [b"\x1c\x85", b"\x00"]),
    ],
)
def test_words_stand_between_blanks_and_tabs(line: bytes, words: list[bytes]) -> None:
    assert split_words(line) == words


def test_words_are_those_of_a_regular_expression() -> None:
    draw = random.Random(1)
    for _ in range(2000):
        line = bytes(draw.choices(range(1, 256), k=9)) + bytes(draw.choices(b" \ta\r\x0b", k=9))
        line = line.replace(b"\n", b"")
        assert split_words(line) == re.findall(rb"[^ \t]+", line)
