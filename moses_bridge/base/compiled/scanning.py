"""Line and word boundaries in a text read by compiled code.

Places become unsigned numbers when used as indices, here and in other innermost loops: numba tests signed ones
for being negative, to count from the end then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moses_bridge.base.compiled.bytes_by_name import BLANK, NEWLINE, TAB
from moses_bridge.base.compiled.inner import inner


@inner
def line_end(data: Any, position: int) -> int:
    """The end of the line, before its "\\n", which must be there."""
    while data[np.uintp(position)] != NEWLINE:
        position += 1
    return position


@inner
def next_token(data: Any, position: int, end: int) -> tuple[int, int]:
    """Start and end of the next token, separated by blanks or tabs; equal if there is none."""
    while position < end and (data[np.uintp(position)] == BLANK or data[np.uintp(position)] == TAB):
        position += 1
    start = position
    while position < end and data[np.uintp(position)] != BLANK and data[np.uintp(position)] != TAB:
        position += 1
    return start, position


@inner
def same_bytes(data: Any, first: int, others: Any, second: int, length: int) -> bool:
    """Whether data[first:first + length] and others[second:second + length] are equal."""
    for i in range(length):  # noqa: SIM110 (slow when compiled)
        if data[np.uintp(first + i)] != others[np.uintp(second + i)]:
            return False
    return True
