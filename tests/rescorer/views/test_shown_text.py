from __future__ import annotations

import pytest

from rescorer.views.shown_text import as_text, markdown_cell, readable


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


def test_nothing_is_markup() -> None:
    assert markdown_cell(b"<script> a|b *c* `d` [e](f)") == (
        r"\<script\> a\|b \*c\* \`d\` \[e\]\(f\)"
    )


def test_bytes_that_are_no_text_become_text() -> None:
    assert as_text(b"a\xe9") == "a\ufffd"
