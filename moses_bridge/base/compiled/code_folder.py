"""The folder of numba's files of compiled code, and their checksums.

numba finds kept code by the source file of its function. It notices neither changes of other files that supply
code or constants to the function, nor damage of a kept file, and runs what it finds. So:

- The folder's name is a digest of all sources of the three packages and of all else that code depends on:
  other sources, another numba or processor have another folder. It is below the user's cache, or
  NUMBA_CACHE_DIR, readable and writable only by the user.
- In each of its folders a file has the SHA-256 of the others, as `sha256sum` writes it. Files missing from
  that list, as after a power cut, are removed before numba looks, and compiled again.

Several processes may compile the same function at once. numba replaces whole files, and numbers the codes of a
function's signatures in its index: two processes that add one each to the same index would exchange them. (One
call has two signatures: a slice of an array is contiguous where it has one row.) So one process at a time reads
the index, adds to it, and lists the files.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import functools
import glob
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import llvmlite
import numba
import numpy as np
from llvmlite import binding

from moses_bridge.base.textio import temporary_directory

PACKAGES = ("moses_bridge", "rescorer", "tuning")
VARIABLE = "NUMBA_CACHE_DIR"
WITHOUT_EFFECT = (VARIABLE, "NUMBA_NUM_THREADS")
PREFIX = "compiled-"  # of the folder's name
SUMS = "SHA256SUMS"
LOCK = ".lock"
KEPT = "*.nb[ic]"  # numba's index and code of a function
UNUSED_SECONDS = 30 * 24 * 3600.0  # after which the folder of other sources is removed

ROOM_BYTES = 1 << 25  # for all compiled code

State = tuple[int, int]
_KNOWN: dict[Path, State] = {}  # the files that are in a list


@functools.cache
def code_folder() -> Path | None:
    """The folder of all processes with these sources; a temporary one if it cannot be written or is full.

    None if there is no room for a temporary one either.
    """
    name = PREFIX + _digest()
    root = os.environ.get(VARIABLE) or _user_cache()
    with contextlib.suppress(OSError):
        if root is not None:
            return _private(Path(root).absolute() / name)
    folders = contextlib.ExitStack()
    atexit.register(folders.close)
    with contextlib.suppress(OSError):
        temporary = folders.enter_context(temporary_directory("compiled"))
        folder = _private(temporary / name)
        os.environ[VARIABLE] = str(temporary)  # for the processes that this one starts
        return folder
    return None


@functools.cache
def verify(folder: Path) -> None:
    """Remove a folder's kept files that differ from its list; list new ones at exit."""
    atexit.register(add_to_list, folder)
    listed = set()
    with alone():
        try:
            with contextlib.suppress(FileNotFoundError):
                listed = set((folder / SUMS).read_bytes().splitlines(keepends=True))
            for path in folder.glob(KEPT):
                state = _state(path)
                if _line(path) in listed:
                    _KNOWN[path] = state
                else:
                    path.unlink()
        except OSError:  # a directory or a link in the place of a file
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Waits until no other process is in this block, with the same folder of code."""
    with contextlib.ExitStack() as stack:
        folder = code_folder()
        with contextlib.suppress(OSError):  # a file system without locks
            if folder is not None:
                flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW
                file = os.open(folder / LOCK, flags, 0o600)
                stack.callback(os.close, file)
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def add_to_list(folder: Path) -> None:
    """List the files kept in a folder since it was verified; if that fails, they are compiled again."""
    lines = []
    for path in folder.glob(KEPT):
        with contextlib.suppress(FileNotFoundError):
            state = _state(path)
            if _KNOWN.get(path) != state:
                lines.append(_line(path))
                _KNOWN[path] = state
    with contextlib.suppress(OSError):
        if lines:
            with open(folder / SUMS, "ab", buffering=0) as file:
                file.write(b"".join(lines))


def _digest() -> str:
    """Digest of everything on which compiled code depends."""
    settings = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name not in WITHOUT_EFFECT
    )
    versions = sys.version, numba.__version__, llvmlite.__version__, np.__version__
    digest = hashlib.sha256(repr((versions, _processor(), settings)).encode())
    for package in filter(None, map(find_spec, PACKAGES)):
        for root in package.submodule_search_locations or ():
            for path in sorted(glob.glob(f"{glob.escape(root)}/**/*.py", recursive=True)):
                with open(path, "rb") as file:
                    source = file.read()
                name = f"{package.name}{path.removeprefix(root)} {len(source)}\n"
                digest.update(name.encode("utf-8", "surrogateescape"))
                digest.update(source)
    return digest.hexdigest()


def _processor() -> tuple[str, str]:
    try:
        features = binding.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM does not know those of this one
        features = ""
    return binding.get_host_cpu_name(), features


def _user_cache() -> Path | None:
    """A folder in the user's cache; None if the user has no home."""
    caches = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")
    return next((Path(cache, "rescorer") for cache in caches if os.path.isabs(cache)), None)


def _private(folder: Path) -> Path:
    """Return a folder that only this user reads and writes, made if missing; OSError if that is impossible."""
    if not folder.is_dir():
        _remove_unused(folder.parent)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} is another user's")
    folder.chmod(0o700)
    os.utime(folder)  # it is in use
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < ROOM_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    tempfile.TemporaryFile(dir=folder).close()
    return folder


def _remove_unused(root: Path) -> None:
    for folder in root.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def _state(path: Path) -> State:
    """A value that changes when another file replaces this one."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def _line(path: Path) -> bytes:
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n".encode()
