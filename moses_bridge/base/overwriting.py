"""Refusing to overwrite inputs, before the work and at its end.

Files are compared by their identity, not by their names: symbolic and hard links are followed.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator

from moses_bridge.base.errors import ConfigError

STANDARD_STREAM = "-"
Identity = tuple[int, int] | str
_PROTECTED: dict[Identity, str] = {}  # inputs of the running command, by identity


def refuse_overwriting(
    outputs: Iterable[str | os.PathLike[str]], inputs: Iterable[str | os.PathLike[str]]
) -> None:
    """Refuse (ConfigError) outputs, files or directories, that are inputs or the same file as another output.

    Standard streams, pipes and devices may be named any number of times; inputs may be missing.
    """
    named = _by_identity(inputs)
    for output in (os.fspath(path) for path in outputs):
        identity = _identity(output)
        if identity is not None and identity in named:
            raise _named_twice(output, named[identity])
        if identity is not None:
            named[identity] = output


@contextlib.contextmanager
def protected(inputs: Iterable[str | os.PathLike[str]]) -> Iterator[None]:
    """Let `refuse_protected` refuse these files, until the end of the `with` block."""
    added = {key: path for key, path in _by_identity(inputs).items() if key not in _PROTECTED}
    _PROTECTED.update(added)
    try:
        yield
    finally:
        for key in added:
            del _PROTECTED[key]


def refuse_protected(target: str | os.PathLike[str]) -> None:
    """Refuse to replace an input of the running command; ConfigError if the target is an input."""
    identity = _identity(os.fspath(target))
    if identity in _PROTECTED:
        raise _named_twice(os.fspath(target), _PROTECTED[identity])


def _by_identity(paths: Iterable[str | os.PathLike[str]]) -> dict[Identity, str]:
    names = [os.fspath(path) for path in paths]
    return {key: name for name in names if (key := _identity(name)) is not None}


def _identity(path: str) -> Identity | None:
    """The identity of a path: an inode, or the real path of a missing file; None for a stream."""
    if path == STANDARD_STREAM:
        return None
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return os.path.realpath(path)
    is_file = stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)
    return (state.st_dev, state.st_ino) if is_file else None


def _named_twice(output: str, other: str) -> ConfigError:
    also = "" if output == other else f" (it is {other} too)"
    return ConfigError(
        f"{output} is named twice{also}: the input is never modified, and each output has a file. "
        "Name another output"
    )
