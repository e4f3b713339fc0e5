"""Text that has to stay on its line."""

from __future__ import annotations


def one_line(text: str) -> str:
    """The text on one line: whatever ends a line becomes a blank."""
    return " ".join(text.splitlines())
