"""A word to the user before code is compiled, which takes a while the first time."""

from __future__ import annotations

import contextlib
from typing import Any, Self

from numba.core import event

from moses_bridge.progress import print_note

COMPILATION = "numba:compile"  # numba tells of it only where its cache does not have the function


class CompilationNotice(event.Listener):  # type: ignore[misc]  # numba has no types
    """Says on standard error that something is being compiled, once, and only if it really is.

    Compilation is noticed between `with` and the end of the block; there may be several blocks.

    Args:
        what: what is compiled, with the time that it takes: "the decoder (about a minute)".
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_told = False
        self._listening = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._listening.enter_context(event.install_listener(COMPILATION, self))
        return self

    def __exit__(self, *_: object) -> None:
        """Notice no more."""
        self._listening.close()

    def on_start(self, event: Any) -> None:
        """A function is going to be compiled."""
        if not self._is_told:
            self._is_told = True
            print_note(f"compiling {self._what}; later runs need not")

    def on_end(self, event: Any) -> None:
        """Nothing is said; the progress of the work itself follows."""
