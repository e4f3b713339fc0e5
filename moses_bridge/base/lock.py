"""Locks of outputs: no two commands write one file, or into one directory, at the same time.

The lock is the kernel's (flock), so it ends with the process holding it, however that ends. It is
taken on a hidden file with the name of its holder; the next command takes over the file of a killed
process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from moses_bridge.base.errors import UserError
from moses_bridge.base.textio import removed_by_signals

LOCK_NAME = ".lock"  # in a directory; for a file NAME it is .NAME.lock next to it
NOT_OFFERED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
HOLDER_BYTES = 4096
_HANDLES: set[int] = set()  # open files with the locks of this process


@contextlib.contextmanager
def held_file(target: Path) -> Iterator[None]:
    """Lock a file for writing, until the end of the `with` block; a link is followed.

    It excludes other callers of this function only. On a file system without locks (some network ones), a
    warning on standard error replaces the lock.

    Raises:
        UserError: another command is writing the file; the error names it.
        OSError: the directory cannot be written.
    """
    target = Path(os.path.realpath(target))
    with _held(target.with_name(f".{target.name}{LOCK_NAME}"), target):
        yield


@contextlib.contextmanager
def held_directory(target: Path) -> Iterator[None]:
    """Make a directory and lock it for writing, until the end of the `with` block; see `held_file`.

    New directories still empty at the end are removed.

    Raises:
        UserError: another command is writing into the directory; the error names it.
        OSError: the directory cannot be written.
    """
    target = Path(os.path.realpath(target))
    made = [path for path in (target, *target.parents) if not path.exists()]
    try:
        with _held(target / LOCK_NAME, target):
            yield
    finally:
        for path in made:
            with contextlib.suppress(OSError):  # something is in it
                path.rmdir()


@contextlib.contextmanager
def _held(lock: Path, target: Path) -> Iterator[None]:
    handle = _taken(lock, target)
    if handle is None:
        yield
        return
    _HANDLES.add(handle)
    try:
        with contextlib.suppress(OSError):  # the name of the holder is not essential
            os.ftruncate(handle, 0)
            command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
            holder = {"pid": os.getpid(), "host": socket.gethostname(), "command": command}
            os.write(handle, json.dumps(holder).encode())
        with removed_by_signals(lock):
            yield
    finally:
        lock.unlink(missing_ok=True)  # while holding it, so that a waiting process sees it gone
        _HANDLES.discard(handle)
        os.close(handle)


def _taken(lock: Path, target: Path) -> int | None:
    """An open file with the lock; None on a file system without locks."""
    while True:
        lock.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            continue  # another process has removed the directory
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_at(handle, lock):
                return handle
            os.close(handle)  # the previous holder has removed it
        except BlockingIOError as error:
            holder = _holder(handle)
            os.close(handle)
            raise UserError(
                f"{target}: another command writes there{holder}. Wait until it ends, or name another place"
            ) from error
        except OSError as error:
            os.close(handle)
            lock.unlink(missing_ok=True)
            if error.errno not in NOT_OFFERED:
                raise
            print(
                f"{target}: this file system offers no locks ({error.strerror}); make sure that no other "
                "command writes there",
                file=sys.stderr,
                flush=True,
            )
            return None


def is_at(handle: int, path: Path) -> bool:
    """Whether an open file is still the one at that path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _holder(handle: int) -> str:
    """The holder of a lock, for a message; "" if the file does not name it."""
    try:
        found = json.loads(os.pread(handle, HOLDER_BYTES, 0))
        return f" (process {found['pid']} on {found['host']}: {found['command']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _close_inherited_locks() -> None:
    """Close the locks in a forked process, whose copies would keep them after the parent."""
    for handle in _HANDLES:
        os.close(handle)
    _HANDLES.clear()


os.register_at_fork(after_in_child=_close_inherited_locks)
