"""Text of Moses's files as people read it, without what stands for characters that mean something to Moses."""

from __future__ import annotations

import html
import re

_ESCAPES = re.compile(r"&(?:amp|lt|gt|quot|apos|#124|#91|#93);")


def without_escapes(text: str) -> str:
    """The text as people read it: `&apos;` is `'`, and so on.

    No escape stands for a blank, so the number of words stays.
    """
    return _ESCAPES.sub(lambda escape: html.unescape(escape[0]), text)


def as_text(words: bytes) -> str:
    """Bytes as UTF-8; any other byte becomes U+FFFD."""
    return words.decode("utf-8", "replace")


def readable(words: bytes) -> str:
    """The same without Moses's escapes, in one line without invisible characters.

    Control characters and those that change the direction of writing become U+FFFD.
    """
    text = without_escapes(as_text(words))
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
