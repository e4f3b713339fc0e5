"""`numba.njit` for code that is kept on disk, also where several processes compile and keep it at once.

numba's own cache (`cache=True`) numbers the files of a function's code, one for each signature, and has an
index of them. Two processes that compile a function for different types at the same time can take the same
number. Then the code of one stands under the types of the other, for every later process too: with numbers of
the same size it runs, and gives wrong results without an error. Of 250 trials in which four processes began
together, 11 left that (numba's issues 4807 and 10128 are of the same kind).

Here the name of a file comes from all that its code is for, which stands in it too, and it appears when it is
complete. So there is no index.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

from moses_bridge.base.textio import temporary_beside

SUFFIX = ".nbc"  # of numba's own
DIGITS = 16  # hexadecimal, of a name's digests


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit(cache=True, ...)`, with the code in a `CodeFiles`.

    Args:
        options: of `numba.njit`, without `cache`.
    """
    compiles = numba.njit(**options)

    def keep(function: Callable[..., Any]) -> Any:
        compiled: Any = compiles(function)
        if compiled is not function:  # as it is with NUMBA_DISABLE_JIT
            compiled._cache = CodeCache(function)
        return compiled

    return keep


class CodeCache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """numba's cache of a function, with other files.

    Args:
        function: in Python.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = CodeFiles(Path(self.cache_path), self._impl.filename_base, stamp)


class CodeFiles:
    """The files of a function's code; numba calls these methods.

    Args:
        folder: where they are; it exists before one is saved.
        function: its name, with all that tells it from others that may be there.
        stamp: of its source; code of another one is not found, and removed by `save`.
    """

    def __init__(self, folder: Path, function: str, stamp: object) -> None:
        self._folder = folder
        self._function = f"{function}."
        self._version = f"{self._function}{_digest((numba.__version__, stamp))}."

    def load(self, key: object) -> Any:
        """The code for a key, or None; a file that is damaged, as after a power cut, counts as none.

        Args:
            key: signature, processor and hash of the function; its `repr` is the same in all processes.
        """
        try:
            kept, code = pickle.loads(self._path(key).read_bytes())
        except (OSError, EOFError, pickle.UnpicklingError):
            return None
        return code if kept == key else None

    def save(self, key: object, code: object) -> None:
        """Keep code; where it cannot be written, on a full disk, the next process compiles again."""
        path = self._path(key)
        with contextlib.suppress(OSError), temporary_beside(path) as temporary:
            temporary.write_bytes(dumps((key, code)))
            temporary.replace(path)
            for older in self._all():
                if not older.name.startswith(self._version):
                    older.unlink(missing_ok=True)

    def flush(self) -> None:
        """Remove the code."""
        for path in self._all():
            path.unlink(missing_ok=True)

    def _path(self, key: object) -> Path:
        return self._folder / f"{self._version}{_digest(key)}{SUFFIX}"

    def _all(self) -> list[Path]:
        """The files of the function's code, of whatever source."""
        return [path for path in self._folder.iterdir() if path.name.startswith(self._function)]


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:DIGITS]
