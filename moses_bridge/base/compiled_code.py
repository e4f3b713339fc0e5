"""Where numba keeps compiled code: beside the modules, in the user's cache, or else in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"
PACKAGE = Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def place_for_compiled_code() -> Iterator[None]:
    """Give numba a temporary folder if it can write to no other place; without one it compiles nothing.

    That is so in a container without a home whose packages cannot be written to. NUMBA_CACHE_DIR can name a
    folder that lasts.
    """
    if VARIABLE in os.environ or _is_writable(PACKAGE) or _is_writable(_user_cache()):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="compiled-") as folder:
        os.environ[VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[VARIABLE]


def _user_cache() -> Path:
    """Where numba looks for the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def _is_writable(path: Path) -> bool:
    """Whether a directory can be written to, or made."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path.is_dir() and os.access(path, os.W_OK)
