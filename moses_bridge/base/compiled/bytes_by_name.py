"""Names for the bytes of text files: compiled code compares numbers, not characters."""

from __future__ import annotations

NEWLINE, CARRIAGE_RETURN, TAB, BLANK = b"\n\r\t "
BAR, BACKSLASH = b"|\\"
PLUS, MINUS, POINT, ZERO, NINE, SMALL_E, LARGE_E = b"+-.09eE"
