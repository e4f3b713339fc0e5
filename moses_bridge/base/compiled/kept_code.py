"""`numba.njit` for functions called from Python, with their code kept on disk (`code_folder`)."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import event

from moses_bridge.base.compiled.code_folder import add_to_list, code_folder, verify

COMPILATION = "numba:compile"  # numba reports it only where it has not kept the code
Function = Callable[..., Any]


def njit(**options: Any) -> Callable[[Function], Any]:
    """`numba.njit(cache=True, ...)`, with the code in `code_folder`.

    Call a function with one signature only: two processes keeping its first code for two signatures at once
    could exchange the codes, since numba numbers them. Functions also called by compiled code are `inner`;
    `njit_by_numbers` is for arrays of various number types. The options are those of `numba.njit`, without
    `cache`.
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


def njit_by_numbers(**options: Any) -> Callable[[Function], Function]:
    """See `njit`; compiles one function for each combination of the argument arrays' number types.

    Compiled code cannot call it.
    """
    keep = njit(**options)

    def by_numbers(function: Function) -> Function:
        @functools.cache
        def kept(*kinds: str) -> Any:
            code, name = function.__code__, "_".join((function.__qualname__, *kinds))
            named = types.FunctionType(code, function.__globals__, function.__name__)
            named.__qualname__ = name  # numba names the files after it
            named.__module__ = function.__module__
            return keep(named)

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            kinds = [each.dtype.str[1:] for each in arguments if hasattr(each, "dtype")]
            return kept(*kinds)(*arguments)

        return call

    return by_numbers


class _Lists(event.Listener):  # type: ignore[misc]  # numba has no types
    """Lists kept code after its compilation, before the compiler's lock is released."""

    def __init__(self) -> None:
        self._folders: set[Path] = set()
        for kind in (COMPILATION, "numba:compiler_lock"):
            event.register(kind, self)

    def on_start(self, event: Any) -> None:
        """Nothing is kept yet."""

    def on_end(self, event: Any) -> None:
        """A function has been compiled, or the lock released."""
        if event.kind == COMPILATION:
            folder = event.data["dispatcher"].stats.cache_path
            if folder is not None:
                self._folders.add(Path(folder))
        else:
            while self._folders:
                add_to_list(self._folders.pop())


_Lists()
