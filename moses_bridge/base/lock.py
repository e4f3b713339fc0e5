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
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from moses_bridge.base.errors import UserError
from moses_bridge.base.progress import print_note
from moses_bridge.base.textio import hidden_beside, removed_by_signals

LOCK_NAME = ".lock"  # in a directory; for a file NAME it is .NAME.lock next to it
NOT_OFFERED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO)  # of a link, a directory and a socket
HOLDER_BYTES = 4096
_HANDLES: set[int] = set()  # open files with the locks of this process
_OF_COMMAND: set[Path] = set()  # what the running command holds, for all that it calls


@contextlib.contextmanager
def held_file(target: Path, waits: bool = False) -> Iterator[None]:
    """Lock a file for writing, until the end of the `with` block; a link is followed.

    It excludes other callers of this function only. The file may be a directory that appears when it is
    complete. With `waits` another command that writes it is waited for, not refused. On a file system without
    locks (some network ones), a warning on standard error replaces the lock.

    Raises:
        UserError: another command is writing the file; the error names it. Or the name of the lock is taken
            by a file of somebody else.
        OSError: the directory cannot be written.
    """
    target = Path(os.path.realpath(target))
    with _held(hidden_beside(target, LOCK_NAME), target, waits):
        yield


@contextlib.contextmanager
def held_by_command(targets: Iterable[Path]) -> Iterator[None]:
    """Lock the files that a command writes; what it calls passes `held_file` for them. See there."""
    with contextlib.ExitStack() as stack:
        for target in (Path(os.path.realpath(target)) for target in targets):
            stack.enter_context(held_file(target))
            _OF_COMMAND.add(target)
            stack.callback(_OF_COMMAND.discard, target)
        yield


@contextlib.contextmanager
def held_directory(target: Path) -> Iterator[None]:
    """Make a directory and lock it for writing, until the end of the `with` block; errors as of `held_file`."""
    target = Path(os.path.realpath(target))
    with _held(target / LOCK_NAME, target):
        yield


@contextlib.contextmanager
def _held(lock: Path, target: Path, waits: bool = False) -> Iterator[None]:
    """Hold a lock; new directories still empty at the end are removed."""
    if target in _OF_COMMAND:
        yield
        return
    made = [path for path in lock.parents if not path.exists()]
    try:
        with _locked(lock, target, waits):
            yield
    finally:
        for path in made:
            with contextlib.suppress(OSError):  # something is in it
                path.rmdir()


@contextlib.contextmanager
def _locked(lock: Path, target: Path, waits: bool) -> Iterator[None]:
    handle = _taken(lock, target, waits)
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


def _taken(lock: Path, target: Path, waits: bool) -> int | None:
    """An open file with the lock; None on a file system without locks."""
    while True:
        lock.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = _opened(lock)
        except FileNotFoundError:
            continue  # another process has removed the directory
        try:
            _lock(handle, target, waits)
            if is_at(handle, lock):
                if os.fstat(handle).st_size and not _holder(handle):
                    raise _foreign(lock)
                return handle
            os.close(handle)  # the previous holder has removed it
        except OSError as error:
            os.close(handle)
            if error.errno not in NOT_OFFERED:
                raise
            lock.unlink(missing_ok=True)
            print(
                f"{target}: this file system offers no locks ({error.strerror}); make sure that no other "
                "command writes there",
                file=sys.stderr,
                flush=True,
            )
            return None
        except BaseException:
            os.close(handle)
            raise


def _opened(lock: Path) -> int:
    """Open the file of a lock, made if missing; nothing else is opened, nor what a link names."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        handle = os.open(lock, flags, 0o666)
    except OSError as error:
        if error.errno in NO_FILE:
            raise _foreign(lock) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _foreign(lock)
    return handle


def _foreign(lock: Path) -> UserError:
    found = "a link" if lock.is_symlink() else "a file of somebody else"
    return UserError(f"{lock}: found {found}, expected the file of a lock. Remove it")


def _lock(handle: int, target: Path, waits: bool) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        other = f"{target}: another command writes there{_holder(handle)}"
        if not waits:
            raise UserError(f"{other}. Wait until it ends, or name another place") from error
        print_note(f"{other}; waiting until it ends")
        fcntl.flock(handle, fcntl.LOCK_EX)


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
