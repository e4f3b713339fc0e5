from __future__ import annotations

import random
import re

import numpy as np
import pytest
from sacremoses import MosesDetokenizer

from moses_bridge.formats.words import (
    as_text,
    readable,
    split_phrases,
    split_words,
    turned_words,
    without_escapes,
)


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
def test_words_are_separated_by_blanks_and_tabs(line: bytes, words: list[bytes]) -> None:
    assert split_words(line) == words


def test_words_are_those_of_a_regular_expression() -> None:
    draw = random.Random(1)
    for _ in range(2000):
        line = bytes(draw.choices(range(1, 256), k=9)) + bytes(draw.choices(b" \ta\r\x0b", k=9))
        line = line.replace(b"\n", b"")
        assert split_words(line) == re.findall(rb"[^ \t]+", line)


@pytest.mark.parametrize("characters", [b"ab \t", b"ab \t\r\x0b\x0c"])
@pytest.mark.parametrize("n_phrases", [0, 1, 200])
def test_words_of_many_phrases_are_those_of_each(characters: bytes, n_phrases: int) -> None:
    draw = random.Random(n_phrases)
    phrases = [bytes(draw.choices(characters, k=draw.randint(0, 6))) for _ in range(n_phrases)]
    words, sizes = split_phrases(phrases)
    split = [re.findall(rb"[^ \t]+", phrase) for phrase in phrases]
    assert words == [word for phrase in split for word in phrase]
    assert sizes.dtype == np.int64 and sizes.tolist() == [len(phrase) for phrase in split]


@pytest.mark.parametrize(
    "text", ["l&apos; accès", "a &quot; b &quot;", "&#91; x &#93; &#124;", "&lt;"]
)
def test_escapes_are_read_as_sacremoses_reads_them(text: str) -> None:
    assert without_escapes(text) == MosesDetokenizer().unescape_xml(text)


def test_an_escaped_escape_stays_one() -> None:
    assert without_escapes("&amp;lt; &copy; &#65;") == "&lt; &copy; &#65;"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (b"l&apos; eau &#124; &amp;lt; &lt;b&gt;", "l' eau | &lt; <b>"),
        ("é\u202eabc\x00\n".encode(), "é\ufffdabc\ufffd\ufffd"),
        (b"\xff", "\ufffd"),
    ],
)
def test_readable(words: bytes, text: str) -> None:
    assert readable(words) == text


def test_bytes_that_are_no_text_become_text() -> None:
    assert as_text(b"a\xe9") == "a\ufffd"


def test_words_are_turned_whole() -> None:
    assert turned_words(b"ab  c d ") == b"d c ab"
