"""A word to the user before code is compiled, and how far it is: it takes a while the first time."""

from __future__ import annotations

import contextlib
from typing import Any, Self

from numba.core import event

from moses_bridge.base.progress import Progress, print_note

COMPILATION = "numba:compile"  # numba tells of it only where its cache does not have the function


class CompilationNotice(event.Listener):  # type: ignore[misc]  # numba has no types
    """Shows on standard error that something is being compiled, only if it really is.

    Compilation is noticed between `with` and the end of the block; there may be several blocks.

    Args:
        what: what is compiled, with the time that it takes: "the decoder (about a minute)".
        n_functions: how many functions are compiled at most, about, those of libraries included; the share
            that is done and the time that is left are told by it.
    """

    def __init__(self, what: str, n_functions: int) -> None:
        self._what = what
        self._n_functions = n_functions
        self._n_done = 0
        self._progress: Progress | None = None
        self._block = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._block.enter_context(event.install_listener(COMPILATION, self))
        return self

    def __exit__(self, *_: object) -> None:
        """Notice no more."""
        if self._progress is not None:
            self._progress.settle()
            self._progress = None
        self._block.close()

    def on_start(self, event: Any) -> None:
        """A function is going to be compiled, perhaps inside of another one."""
        if self._progress is None:
            if not self._n_done:
                print_note(f"compiling {self._what}; later runs need not")
            bar = Progress("compile", self._n_functions, "functions", self._n_done)
            self._progress = self._block.enter_context(bar)

    def on_end(self, event: Any) -> None:
        """A function is compiled."""
        self._n_done += 1
        if self._progress is not None:
            self._progress.update()
