"""`numba.njit` for functions called from Python, with their code kept on disk (`code_folder`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numba
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

from moses_bridge.base.compiled.code_folder import add_to_list, alone, code_folder, verify

COMPILATION = "numba:compile"  # numba reports it only where it has not kept the code
Function = Callable[..., Any]


def njit(**options: Any) -> Callable[[Function], Any]:
    """`numba.njit(cache=True, ...)`, with the code in `code_folder`.

    Functions also called by compiled code are `inner`. The options are those of `numba.njit`, without `cache`.
    """

    def keep(function: Function) -> Any:
        folder = code_folder()
        if folder is None:
            return numba.njit(no_cfunc_wrapper=True, **options)(function)
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)
        try:
            compiled = numba.njit(cache=True, no_cfunc_wrapper=True, **options)(function)
        finally:
            numba.config.CACHE_DIR = before
        if compiled is not function:  # as it is with NUMBA_DISABLE_JIT
            verify(Path(compiled.stats.cache_path))
        return compiled

    return keep


compiled = njit()


class _Saving(event.Listener):  # type: ignore[misc]  # numba has no types
    """Lets one process at a time save and list code, from its compilation until numba has finished."""

    def __init__(self) -> None:
        self._folders: set[Path] = set()
        self._alone = ExitStack()
        for kind in (COMPILATION, "numba:compiler_lock"):
            event.register(kind, self)

    def on_start(self, event: Any) -> None:
        """Nothing is saved yet."""

    def on_end(self, event: Any) -> None:
        """A function has been compiled, or the lock released."""
        if event.kind == COMPILATION:
            folder = event.data["dispatcher"].stats.cache_path
            if folder is not None:
                if not self._folders:
                    self._alone.enter_context(alone())
                self._folders.add(Path(folder))
        elif not global_compiler_lock.is_locked():  # by this thread
            while self._folders:
                add_to_list(self._folders.pop())
            self._alone.close()


_Saving()
