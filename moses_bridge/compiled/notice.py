"""A notice to the user before code is compiled, with its progress: the first time takes a while."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Self

from numba.core import event

from moses_bridge.base.progress import Progress, exclude_seconds, print_note

COMPILATION = "numba:compile"  # numba reports it only where its cache lacks the function


class CompilationNotice(event.Listener):  # type: ignore[misc]  # numba has no types
    """Shows on standard error that something is being compiled, only if it really is.

    Compilation is noticed between `with` and the end of the block; there may be several blocks.

    Args:
        what: what is compiled, with the time it takes: "the decoder (about a minute)".
        n_functions: roughly how many functions are compiled at most, including those of libraries; the share
            done and the time left are computed from it.
    """

    def __init__(self, what: str, n_functions: int) -> None:
        self._what = what
        self._n_functions = n_functions
        self._n_done = 0
        self._depth = 0  # of functions that are compiled inside of others
        self._start = 0.0
        self._progress: Progress | None = None
        self._block = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._block.enter_context(event.install_listener(COMPILATION, self))
        return self

    def __exit__(self, *_: object) -> None:
        """Stop noticing."""
        if self._progress is not None:
            self._progress.set_total_to_done()
            self._progress = None
        self._block.close()

    def on_start(self, event: Any) -> None:
        """A function is about to be compiled, perhaps inside another one."""
        self._depth += 1
        if self._depth > 1:
            return
        self._start = time.monotonic()
        if self._progress is not None:
            self._progress.step_forward()
            return
        if not self._n_done:
            print_note(f"compiling {self._what}; later runs need not")
        bar = Progress("compile", self._n_functions, "functions", self._n_done, is_excluded=True)
        self._progress = self._block.enter_context(bar)

    def on_end(self, event: Any) -> None:
        """A function has been compiled; between two of them the work that needs them is shown."""
        self._n_done += 1
        self._depth -= 1
        now = time.monotonic()
        exclude_seconds(now - self._start)
        self._start = now
        if self._progress is not None:
            self._progress.update()
            if self._depth == 0:
                self._progress.step_aside()
