"""An output file that grows block by block and survives its writer's death.

Each block is a compressed member of its own; every reader takes concatenated members for one file
(gzip: RFC 1952, section 2.2; bzip2, xz and zstd likewise). So a later run continues after the
blocks already written, and the file is the same as without the interruption.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from xopen import xopen

from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.errors import ConfigError, InputError, UserError
from moses_bridge.base.json_files import read_record
from moses_bridge.base.lock import held_file, is_at
from moses_bridge.base.textio import (
    COMPRESSIONS,
    Place,
    Stream,
    StrPath,
    hidden_beside,
    is_stream,
    named_errors,
    no_link,
    open_write_packed,
    publish,
    removed_by_signals,
    temporary_beside,
)

BYTES_AT_ONCE = 1 << 20
GZIP_LEVEL = 5  # with zlib-ng, files are as small as of `gzip -6`


@dataclass(frozen=True)
class _State:
    settings: Any
    n_bytes: Annotated[int, AtLeast(0)]
    progress: dict[str, int]
    digest: str = ""  # of an earlier version

    def __post_init__(self) -> None:
        check_limits(self)
        if min(self.progress.values(), default=0) < 0:
            raise ConfigError("progress has a number below 0")


class PartialFile(ExitStack):
    """An unfinished file: its data are in .NAME.partial, its progress in .NAME.partial.json.

    Two writers of one file must be kept apart (`moses_bridge.base.lock`); without locks, one of
    them finds at its end that its data are gone. A writer ending before its first block leaves no
    file.

    Args:
        out: the file to make; a link is followed.
        settings: everything the content depends on.
        resume: continue an earlier part with equal settings, if there is one; otherwise start anew.

    Attributes:
        progress: sums of the counts of all blocks so far, by name; 0 for any other name.
    """

    def __init__(self, out: Path, settings: Mapping[str, Any], resume: bool) -> None:
        super().__init__()
        self.out = out = Path(os.path.realpath(out))
        self.settings = json.loads(json.dumps(settings))
        self.data_path = hidden_beside(out, ".partial")
        self.state_path = hidden_beside(out, ".partial.json")
        self.progress = Counter[str]()
        self.n_bytes = 0
        self._hash = blake2b(digest_size=16)
        out.parent.mkdir(parents=True, exist_ok=True)
        if resume:
            self._load_state()
        else:
            self.state_path.unlink(missing_ok=True)
        self._empty = ExitStack()
        if not self.n_bytes:  # a new file: another writer may have the old one open
            self.data_path.unlink(missing_ok=True)
            self._empty.enter_context(removed_by_signals(self.data_path))
        mode: Literal["r+b", "xb"] = "r+b" if self.n_bytes else "xb"
        self._stream: BinaryIO = open(self.data_path, mode, opener=no_link)  # noqa: SIM115
        self._stream.truncate(self.n_bytes)
        self._stream.seek(self.n_bytes)
        self.callback(self._end)

    def _load_state(self) -> None:
        """Continue from the state of an earlier run; ignore an unusable one."""
        try:
            state = read_record(_State, self.state_path, "the state of an unfinished file")
            is_own = not self.data_path.is_symlink()
            complete = is_own and self.data_path.stat().st_size >= state.n_bytes
            if state.settings != self.settings or not complete:
                return
            with self.data_path.open("rb") as stream:
                for place in range(0, state.n_bytes, BYTES_AT_ONCE):
                    self._hash.update(stream.read(min(BYTES_AT_ONCE, state.n_bytes - place)))
        except (OSError, InputError):
            return
        if state.digest in ("", self._digest(state.progress)):
            self.n_bytes, self.progress = state.n_bytes, Counter(state.progress)
        else:
            self._hash = blake2b(digest_size=16)

    def _digest(self, progress: Mapping[str, int]) -> str:
        """Of the data and the progress: a disk may have changed them."""
        hashed = self._hash.copy()
        hashed.update(json.dumps(progress, sort_keys=True).encode())
        return hashed.hexdigest()

    def _end(self) -> None:
        try:
            with named_errors(self.data_path):  # closing tries to write the rest once more
                self._stream.close()
        finally:
            self._empty.close()
            if not self.n_bytes:
                self.data_path.unlink(missing_ok=True)

    def append(self, member: bytes, counts: Mapping[str, int]) -> None:
        """Write one block, made by `compress`, and add its counts to the progress.

        Raises:
            OSError: the file cannot be written, because the disk is full, say; the error names it.
        """
        with named_errors(self.data_path):
            self._stream.write(member)
            self._stream.flush()
        self._empty.close()
        self.n_bytes += len(member)
        self._hash.update(member)
        self.progress.update(counts)
        with named_errors(self.state_path):
            self._save_state()

    def _save_state(self) -> None:
        state = {"settings": self.settings, "n_bytes": self.n_bytes, "progress": self.progress}
        state["digest"] = self._digest(self.progress)
        with temporary_beside(self.state_path) as temporary:
            with temporary.open("x") as stream:
                stream.write(json.dumps(state))
            temporary.replace(self.state_path)

    def publish(self) -> None:
        """Give the file its name and remove the record of its progress.

        Raises:
            UserError: another writer has replaced the data.
        """
        if not is_at(self._stream.fileno(), self.data_path):
            raise UserError(
                f"{self.out}: another command has written there meanwhile, so the output of this one is lost. "
                "Run one command at a time, or give each its own --out"
            )
        self._stream.close()
        publish(self.data_path, self.out)
        self.state_path.unlink(missing_ok=True)


class StreamOutput(ExitStack):
    """`PartialFile` for "-", a pipe or a device, written to directly; it cannot be resumed."""

    def __init__(self, out: StrPath) -> None:
        super().__init__()
        self.progress = Counter[str]()
        self._stream = self.enter_context(open_write_packed(out))

    def append(self, member: bytes, counts: Mapping[str, int]) -> None:
        """Write one block and add its counts to the progress."""
        self._stream.write(member)
        self.progress.update(counts)

    def publish(self) -> None:
        """Flush the buffer."""
        self._stream.flush()


@contextlib.contextmanager
def open_blocks(
    out: Place, settings: Mapping[str, Any], resume: bool, inputs: Sequence[StrPath] = ()
) -> Iterator[PartialFile | StreamOutput]:
    """Open an output for its blocks; a file is locked until the end of the `with` block.

    Raises:
        ConfigError: a run on streams is to be continued.
        UserError: another command is writing the file.
    """
    if resume and any(map(is_stream, (out, *inputs))):
        raise ConfigError("a run on standard input or output, a pipe or a device cannot be resumed")
    if isinstance(out, Stream):
        with StreamOutput(out) as stream:
            yield stream
        return
    with held_file(out), PartialFile(out, settings, resume) as file:
        yield file


def compress(data: bytes, out: Path) -> bytes:
    """One compressed member in the format of out's suffix, if any; equal data make equal bytes."""
    kind = COMPRESSIONS.get(out.suffix)
    if kind is None:
        return data
    buffer = io.BytesIO()
    level = GZIP_LEVEL if kind == "gz" else None
    with xopen(buffer, "wb", format=kind, threads=0, compresslevel=level) as stream:
        stream.write(data)
    return buffer.getvalue()
