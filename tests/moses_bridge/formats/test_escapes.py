"""Escapes of the Moses tokenizer, read back."""

from __future__ import annotations

import pytest
from sacremoses import MosesDetokenizer

from moses_bridge.formats.escapes import as_text, readable, without_escapes


@pytest.mark.parametrize(
    "text", ["l&apos; accès", "a &quot; b &quot;", "&#91; x &#93; &#124;", "&lt;"]
)
def test_it_reads_what_sacremoses_reads(text: str) -> None:
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
