"""Text of tables as people read it."""

from __future__ import annotations

import re

from moses_bridge.formats.escapes import without_escapes

# CommonMark: a backslash before any of these makes it plain text.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&:@^$=])")


def as_text(words: bytes) -> str:
    """Bytes as UTF-8; any other byte becomes U+FFFD."""
    return words.decode("utf-8", "replace")


def readable(words: bytes) -> str:
    """The same without Moses's escapes, in one line without invisible characters.

    Control characters and those that change the direction of writing become U+FFFD.
    """
    text = without_escapes(as_text(words))
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def markdown_cell(words: bytes) -> str:
    """The readable text as a cell of a Markdown table, in which nothing is markup."""
    return _MARKDOWN.sub(r"\\\1", readable(words))
