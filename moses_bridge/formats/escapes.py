"""What the Moses tokenizer writes for characters that mean something to Moses, read back."""

from __future__ import annotations

import html
import re

_ESCAPES = re.compile(r"&(?:amp|lt|gt|quot|apos|#124|#91|#93);")


def without_escapes(text: str) -> str:
    """The text as people read it: `&apos;` is `'`, and so on.

    No escape stands for a blank, so the number of words stays.
    """
    return _ESCAPES.sub(lambda escape: html.unescape(escape[0]), text)
