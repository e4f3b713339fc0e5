"""All reading and writing of text: bytes, compressed by suffix, whole files; "\\n" ends lines."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import os
import secrets
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

from xopen import xopen

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.overwriting import STANDARD_STREAM as STANDARD_STREAM
from moses_bridge.base.overwriting import refuse_protected

StrPath = str | os.PathLike[str]
COMPRESSIONS = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst"}
# bzip2 data begins with "BZh", a digit and one of these; text may begin with "BZh".
BZIP2_NAME, BZIP2_BLOCKS = b"BZh", (b"1AY&SY", b"\x17rE8P\x90")
GZIP_BEGINNING = b"\x1f\x8b"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
NAME_BYTES = 255  # of the longest name, on most file systems
PIECE_BYTES = 1 << 18  # read at once; larger pieces are no faster
# A megabyte of gz can contain a line of a gigabyte; no text has one.
LINE_LIMIT_NAME, LINE_LIMIT = "MOSES_BRIDGE_LINE_MB", 64
_UNFINISHED: set[Path] = set()


class Stream(str):
    """A path that `is_stream`."""


Place = Path | Stream  # told apart by type


def open_read(path: StrPath) -> BinaryIO:
    """Open a file for reading bytes; .gz, .bz2, .xz and .zst are decompressed, "-" is standard input.

    Without such a suffix a file is decompressed if its first bytes are those of compressed data.

    Raises:
        InputError: the file is missing or cannot be read.
    """
    if os.fspath(path) == STANDARD_STREAM:
        return sys.stdin.buffer
    try:
        if _is_text_like_bzip2(path):
            return open(path, "rb")
        return cast(BinaryIO, xopen(path, "rb", threads=0))
    except OSError as error:
        raise InputError(path, None, error.strerror or str(error), "a readable file") from error
    except ValueError as error:  # a name with a zero byte
        raise InputError(repr(path), None, str(error), "a readable file") from error


def _is_text_like_bzip2(path: StrPath) -> bool:
    """Whether a file without a suffix of compression begins with "BZh", but is no bzip2 data."""
    if Path(path).suffix in COMPRESSIONS or not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        head = stream.read(10)
    return head.startswith(BZIP2_NAME) and head[4:] not in BZIP2_BLOCKS


@contextlib.contextmanager
def open_write(path: StrPath) -> Iterator[BinaryIO]:
    """Open a file for writing bytes, compressed by suffix; it appears under its name when complete.

    "-" is standard output. On an error nothing is left, and an older file does not change. A pipe
    or a device, like /dev/null, is written to directly. A link to a file is replaced, not followed: it may
    be in a folder from somebody else. See `without_link` for one that the user names.

    Raises:
        OSError: the file cannot be written; the error names it.
        ConfigError: the file is an input of the running command.
    """
    compression = COMPRESSIONS.get(Path(path).suffix)
    with open_write_packed(path) as file:
        if compression is None:
            yield file
            return
        with xopen(file, "wb", format=compression, threads=0) as stream:
            yield cast(BinaryIO, stream)


@contextlib.contextmanager
def open_write_packed(path: StrPath) -> Iterator[BinaryIO]:
    """`open_write` for compressed bytes."""
    if os.fspath(path) == STANDARD_STREAM:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with named_errors(path):
        if is_stream(path):
            with open(path, "wb") as file:
                yield file
            return
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary_beside(target) as temporary:
            with temporary.open("xb") as file:
                yield file
            publish(temporary, target)


def is_stream(path: StrPath) -> bool:
    """Whether a path is "-" or exists and is not a plain file: a pipe, a device or a directory."""
    is_standard = os.fspath(path) == STANDARD_STREAM
    return is_standard or (Path(path).exists() and not Path(path).is_file())


def place_of(path: StrPath) -> Place:
    """A path as a file, present or to be made, or a stream."""
    return Stream(os.fspath(path)) if is_stream(path) else Path(path)


def without_link(path: StrPath) -> Path:
    """A path that the user names for writing: of a link to a file, present or to be made, the file."""
    is_link = os.path.islink(path) and not is_stream(path)
    return Path(os.path.realpath(path) if is_link else path)


def no_link(path: str, flags: int) -> int:
    """Open a file, but no link, to be changed in place; the `opener` of `open`."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def publish(temporary: Path, target: Path) -> None:
    """Give a complete file its name, so that a power cut leaves the old file or the new one.

    ConfigError if the target is an input of the running command.
    """
    refuse_protected(target)
    _sync(temporary)
    temporary.replace(target)
    _sync(target.parent)


def remove_unfinished() -> None:
    """Remove the unfinished files of this process, before a signal ends it."""
    for temporary in tuple(_UNFINISHED):
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                temporary.unlink()


def hidden_beside(target: Path, suffix: str) -> Path:
    """The path of a hidden file next to a target: .NAME and the suffix, with a digest for a long NAME."""
    name = f".{target.name}{suffix}"
    if len(os.fsencode(name)) > NAME_BYTES:
        digest = hashlib.blake2b(os.fsencode(target.name), digest_size=16).hexdigest()
        name = f".{digest}{suffix}"
    return target.with_name(name)


@contextlib.contextmanager
def temporary_beside(target: Path) -> Iterator[Path]:
    """A unique path next to the target; no file of this name is left."""
    temporary = hidden_beside(target, f".{secrets.token_hex(8)}")
    with removed_by_signals(temporary):
        try:
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def removed_by_signals(path: Path) -> Iterator[None]:
    """Let `remove_unfinished` remove a file or directory, until the end of the `with` block."""
    _UNFINISHED.add(path)
    try:
        yield
    finally:
        _UNFINISHED.discard(path)


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a log by one write, so that lines of several processes do not mix; all of it or nothing.

    Raises:
        OSError: the log cannot be written, or is a link; the error names it.
    """
    with named_errors(path), open(path, "ab", buffering=0, opener=no_link) as log:
        n_bytes = log.write(line + b"\n")
        if n_bytes <= len(line):
            log.truncate(log.tell() - n_bytes)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def open_directory(target: Path, replaced: Sequence[str] = ()) -> Iterator[Path]:
    """A new directory to fill; it appears under its name only when complete.

    On an error nothing is left. The target may be an existing directory without files, or with those that
    match the patterns `replaced`, which are removed when the new ones are complete.

    Raises:
        ConfigError: the target exists and has other files, or is no directory.
        OSError: the directory cannot be written.
    """
    target = Path(os.path.realpath(target))
    old = files_to_replace(target, replaced)
    target.parent.mkdir(parents=True, exist_ok=True)
    with temporary_directory(target.name, target.parent) as temporary:
        content = temporary / target.name  # as readable to others as any new directory
        content.mkdir()
        yield content
        for path in content.iterdir():
            _sync(path)
        for path in old:
            path.unlink()
        content.replace(target)
        _sync(target.parent)


def files_to_replace(target: Path, replaced: Sequence[str] = ()) -> set[Path]:
    """The files that `open_directory` removes; a ConfigError if there are others."""
    old = {path for pattern in replaced for path in target.glob(pattern)}
    if target.exists() and not (target.is_dir() and old.issuperset(target.iterdir())):
        raise ConfigError(
            f"{target}: found {'files in it' if target.is_dir() else 'a file'}, expected a new or an empty "
            "directory. Name another one, or remove it"
        )
    return old


@contextlib.contextmanager
def temporary_directory(name: str, parent: Path | None = None) -> Iterator[Path]:
    """A unique directory, unreadable to other users; it is removed at the end of the `with` block.

    `name`, what it is for, is a part of its name; its parent is by default the one of temporary files (TMPDIR).

    Raises:
        OSError: the parent cannot be written.
    """
    place = Path(tempfile.gettempdir()) if parent is None else parent
    temporary = hidden_beside(place / name, f".{secrets.token_hex(5)}")
    with removed_by_signals(temporary):
        temporary.mkdir(mode=0o700)
        try:
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def named_errors(path: StrPath) -> Iterator[None]:
    """Add the path to errors of a full disk or a limit, since they have no file name."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = os.fspath(path)
        raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_lines(path: StrPath) -> Iterator[bytes]:
    """Yield the lines of a file without their "\\n"; a carriage return or any other byte is kept.

    Raises:
        InputError: the file cannot be read, its compressed data are damaged, or a line is longer than
            `line_limit`.
    """
    return chain.from_iterable(read_line_blocks(path))


def read_line_blocks(path: StrPath) -> Iterator[list[bytes]]:
    """Yield the lines read at once; of a pipe, those present. See `read_lines`."""
    n_lines = 0

    def line_number() -> int:
        return n_lines + 1

    for text in whole_lines(path, line_number):
        lines = text.split(b"\n")
        lines.pop()
        n_lines += len(lines)
        yield lines


def whole_lines(path: StrPath, line_number: Callable[[], int]) -> Iterator[bytes]:
    """See `blocks.read_whole_lines`; line_number is that of the line after those yielded."""
    longest, n_begun = line_limit(), 0
    begun: list[bytes] = []  # pieces of an unfinished line
    for piece in read_pieces(path, line_number):
        cut = piece.rfind(b"\n") + 1
        if cut:
            whole = b"".join((*begun, piece[:cut]))
            yield whole
            begun.clear()
            n_begun = 0
        begun.append(piece[cut:])
        n_begun += len(begun[-1])
        if n_begun > longest:
            limit = longest >> 20
            found = f"a line of more than {limit} MiB"
            hint = f"If this is right, set {LINE_LIMIT_NAME} to more than {limit}"
            raise InputError(path, line_number(), found, "lines of text", hint)
    rest = b"".join(begun)
    if rest:
        yield rest + b"\n"


def line_limit() -> int:
    """Length limit of a line, in bytes: 64 MiB, or MOSES_BRIDGE_LINE_MB (ConfigError if no positive number)."""
    text = os.environ.get(LINE_LIMIT_NAME, str(LINE_LIMIT))
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 9 and int(text)):
        raise ConfigError(f"found {LINE_LIMIT_NAME}={text}, expected a whole number of MiB")
    return int(text) << 20


def read_pieces(
    path: StrPath, line_number: Callable[[], int | None] = lambda: None
) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed, some hundred kilobytes at a time.

    Raises:
        InputError: the file cannot be read, or its compressed data are damaged, in the line of `line_number`.
    """
    with open_read(path) as stream:
        read = getattr(stream, "read1", stream.read)  # of a pipe only the bytes present
        while True:
            try:
                piece = read(PIECE_BYTES)
            except Exception as error:  # each compression has an error class of its own
                raise damaged(path, line_number(), error) from error
            if not piece:
                return
            yield piece


def read_bytes(path: StrPath) -> bytes:
    """All bytes of a file, decompressed; errors as of `read_pieces`."""
    with open_read(path) as stream:
        try:
            return stream.read()  # whole: joined pieces would be in memory twice
        except Exception as error:  # each compression has an error class of its own
            raise damaged(path, None, error) from error


def damaged(path: StrPath, line_number: int | None, error: Exception) -> InputError:
    """The error of a file that cannot be read on: most often, of damaged compressed data.

    A MemoryError is raised: the data may be whole.
    """
    if isinstance(error, MemoryError):
        raise error
    if isinstance(error, OSError) and error.errno is not None:  # of the disk, say
        return InputError(path, line_number, os.strerror(error.errno), "a readable file")
    found = f"damaged data ({error})"
    return InputError(path, line_number, found, "a complete file", _gzip_advice(path))


def _gzip_advice(path: StrPath) -> str:
    """The remedy: the reader of gzip data has one message for a cut file, another one and bytes behind it."""
    try:
        with open(path, "rb") as file, gzip.open(file) as stream:
            is_gzip = file.read(len(GZIP_BEGINNING)) == GZIP_BEGINNING
            file.seek(0)
            while stream.read(PIECE_BYTES):
                pass
    except gzip.BadGzipFile as error:
        if is_gzip and str(error).startswith("Not a gzipped file"):
            return "Other bytes follow the end of the gzip data: gzip -dc FILE | gzip > NEW cuts them off"
    except (OSError, ValueError, EOFError, zlib.error):
        pass
    return "Make it again"


def write_bytes(path: StrPath, data: bytes) -> None:
    """Write a whole file; see `open_write`."""
    with open_write(path) as stream:
        stream.write(data)


def write_changed(path: Path, data: bytes) -> None:
    """Write a file unless it has these bytes: make repeats what depends on a newer file."""
    if not (path.exists() and path.read_bytes() == data):
        write_bytes(path, data)


def write_lines(path: StrPath, lines: Iterator[bytes] | list[bytes]) -> None:
    """Write lines, each followed by "\\n"; see `open_write`."""
    with open_write(path) as stream:
        for line in lines:
            stream.write(line + b"\n")


def count_lines(path: StrPath) -> int:
    """The number of lines of a file."""
    return sum(1 for _ in read_lines(path))
