"""Escapes of the Moses tokenizer, read back."""

from __future__ import annotations

import pytest
from sacremoses import MosesDetokenizer

from moses_bridge.formats.escapes import without_escapes


@pytest.mark.parametrize(
    "text", ["l&apos; accès", "a &quot; b &quot;", "&#91; x &#93; &#124;", "&lt;"]
)
def test_it_reads_what_sacremoses_reads(text: str) -> None:
    assert without_escapes(text) == MosesDetokenizer().unescape_xml(text)


def test_an_escaped_escape_stays_one() -> None:
    assert without_escapes("&amp;lt; &copy; &#65;") == "&lt; &copy; &#65;"
