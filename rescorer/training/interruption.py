"""Signals that end a training after its current update, so that its best weights can be saved."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from moses_bridge.base.programs import ENDING_SIGNALS, handled


@contextlib.contextmanager
def noted_signal(is_alone: bool = True) -> Iterator[list[int]]:
    """A list for the first signal in a `with` block, which acts at the end of the block; a second acts at once.

    Of several processes that train together (not `is_alone`), each ends at once.
    """
    noted = list[int]()
    with contextlib.ExitStack() as handlers:

        def note(number: int, frame: FrameType | None) -> None:
            noted.append(number)
            handlers.close()

        if is_alone:
            handlers.enter_context(handled(ENDING_SIGNALS, note))
        yield noted
    for came in noted:
        signal.raise_signal(came)
