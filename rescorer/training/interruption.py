"""Signals that end a training after its current update, so that its best weights can be saved."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def noted_signal(is_alone: bool = True) -> Iterator[list[int]]:
    """A list for the first signal in a `with` block, which acts at the end of the block; a second acts at once.

    Of several processes that train together (not `is_alone`), each ends at once.
    """
    noted, handlers = list[int](), dict[int, Any]()

    def restore() -> None:
        while handlers:
            signal.signal(*handlers.popitem())

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        restore()

    if is_alone and threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                handlers[number] = signal.signal(number, note)
    try:
        yield noted
    finally:
        restore()
    for came in noted:
        signal.raise_signal(came)
