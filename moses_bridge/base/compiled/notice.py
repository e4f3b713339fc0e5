"""A notice to the user before code is compiled, which takes a while the first time."""

from __future__ import annotations

import time
from typing import Any, Self

from numba.core import event

from moses_bridge.base.compiled.kept_code import COMPILATION
from moses_bridge.base.progress import exclude_seconds, print_note


class CompilationNotice(event.Listener):  # type: ignore[misc]  # numba has no types
    """Prints once on standard error that something is being compiled, only if it really is.

    Compilation is noticed inside the `with` block; there may be several blocks. Progress rates exclude its
    seconds.

    Args:
        what: what is compiled, with the time it takes: "the decoder (about a minute)".
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_told = False
        self._depth = 0  # of functions that are compiled inside of others
        self._start = 0.0

    def __enter__(self) -> Self:
        event.register(COMPILATION, self)
        return self

    def __exit__(self, *_: object) -> None:
        event.unregister(COMPILATION, self)

    def on_start(self, event: Any) -> None:
        """A function is about to be compiled, perhaps inside another one."""
        if self._depth == 0:
            self._start = time.monotonic()
        self._depth += 1
        if not self._is_told:
            print_note(f"compiling {self._what}; later runs need not")
            self._is_told = True

    def on_end(self, event: Any) -> None:
        """A function has been compiled."""
        self._depth -= 1
        if self._depth == 0:
            exclude_seconds(time.monotonic() - self._start)
