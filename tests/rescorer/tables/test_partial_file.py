"""A file that grows block by block: killed anywhere, continued, and read by other programs' readers."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.base.errors import UserError
from moses_bridge.base.textio import remove_unfinished
from rescorer.tables import partial_file
from rescorer.tables.partial_file import PartialFile, StreamOutput, compress

SUFFIXES = ["", ".gz", ".bz2", ".xz", ".zst"]
SETTINGS = {"table": "t", "columns": ("sum",), "shard": None}
BLOCKS = [b"block %d\n" % number * (1 + 700 * (number % 2)) for number in range(5)]
WHOLE = b"".join(BLOCKS)


def unpacked(path: Path) -> bytes:
    """The content of a file as a reader that is not ours has it."""
    if path.suffix == ".zst":
        if shutil.which("zstdcat") is None:
            pytest.skip("no zstdcat here")
        return subprocess.run(["zstdcat", path], capture_output=True, check=True).stdout
    readers: dict[str, Callable[[bytes], bytes]] = {
        "": bytes,
        ".gz": gzip.decompress,
        ".bz2": bz2.decompress,
        ".xz": lzma.decompress,
    }
    return readers[path.suffix](path.read_bytes())


class Killed(BaseException):
    """The process is no more."""


def write(
    out: Path, resume: bool = False, n_blocks: int | None = None, settings: Any = SETTINGS
) -> list[int]:
    """Write the blocks that are not there yet; killed behind n_blocks of them.

    Returns:
        The numbers of the blocks that were written now.
    """
    new = []
    with PartialFile(out, settings, resume) as sink:
        for number in range(sink.progress.get("blocks", 0), len(BLOCKS)):
            if number == n_blocks:
                raise Killed
            sink.append(compress(BLOCKS[number], out), {"blocks": 1, "bytes": len(BLOCKS[number])})
            new.append(number)
        assert sink.progress == {"blocks": len(BLOCKS), "bytes": len(WHOLE)}
        sink.publish()
    return new


def killed(out: Path, n_blocks: int, settings: Any = SETTINGS) -> tuple[Path, Path]:
    """The data and the state of a run that was killed behind some blocks."""
    with pytest.raises(Killed):
        write(out, n_blocks=n_blocks, settings=settings)
    return out.with_name(f".{out.name}.partial"), out.with_name(f".{out.name}.partial.json")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_blocks_are_one_file_and_nothing_else_remains(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out{suffix}"
    assert write(out) == [0, 1, 2, 3, 4]
    assert unpacked(out) == WHOLE
    assert names(tmp_path) == [out.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("n_blocks", range(5))
@pytest.mark.parametrize("torn", [0, 1, 11, 100_000])
def test_a_killed_run_continues_behind_the_last_whole_block(
    tmp_path: Path, suffix: str, n_blocks: int, torn: int
) -> None:
    """Behind the last block may stand the beginning of one that was not finished."""
    write(whole := tmp_path / f"whole{suffix}")
    out = tmp_path / f"out{suffix}"
    data, _ = killed(out, n_blocks)
    with data.open("ab") as stream:
        stream.write(compress(b"x" * 9999, out)[:torn])
    assert write(out, resume=True) == list(range(n_blocks, 5))
    assert out.read_bytes() == whole.read_bytes()
    assert unpacked(out) == WHOLE
    assert names(tmp_path) == sorted([whole.name, out.name])


def test_a_run_that_is_killed_at_each_block_continues(tmp_path: Path) -> None:
    out = tmp_path / "out.gz"
    killed(out, 1)
    for n_blocks in range(2, 5):
        with pytest.raises(Killed):
            write(out, resume=True, n_blocks=n_blocks)
    assert write(out, resume=True) == [4]
    assert unpacked(out) == WHOLE


def test_killed_between_a_block_and_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The block is there, but nothing says so: it is written again in the same place."""
    out, calls = tmp_path / "out.gz", iter(range(3))
    original = PartialFile._save_state

    def save(self: PartialFile) -> None:
        if next(calls) == 2:
            raise Killed
        original(self)

    monkeypatch.setattr(PartialFile, "_save_state", save)
    with pytest.raises(Killed):
        write(out)
    monkeypatch.undo()
    state = json.loads((tmp_path / ".out.gz.partial.json").read_bytes())
    assert (tmp_path / ".out.gz.partial").stat().st_size > state["n_bytes"]
    assert write(out, resume=True) == [2, 3, 4]
    assert unpacked(out) == WHOLE


def test_killed_while_the_state_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old state stays until the new one is whole."""
    out, calls = tmp_path / "out", iter(range(3))
    original = Path.replace

    def replace(self: Path, other: Path) -> Path:
        if next(calls) == 2:
            raise Killed
        return original(self, other)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(Killed):
        write(out)
    monkeypatch.undo()
    assert write(out, resume=True) == [2, 3, 4]
    assert out.read_bytes() == WHOLE
    assert names(tmp_path) == ["out"]


def test_killed_before_the_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.gz"

    def publish(*_: Any) -> None:
        raise Killed

    monkeypatch.setattr(partial_file, "publish", publish)
    with pytest.raises(Killed):
        write(out)
    monkeypatch.undo()
    assert not out.exists()
    assert write(out, resume=True) == []
    assert unpacked(out) == WHOLE


@pytest.mark.parametrize("n_blocks", [0, 3])
def test_the_older_file_stands_until_the_new_one_is_whole(tmp_path: Path, n_blocks: int) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"older\n")
    killed(out, n_blocks)
    assert out.read_bytes() == b"older\n"
    write(out, resume=True)
    assert out.read_bytes() == WHOLE


def without(name: str) -> Callable[[bytes], bytes]:
    def damaged(state: bytes) -> bytes:
        return json.dumps({k: v for k, v in json.loads(state).items() if k != name}).encode()

    return damaged


def changed(**changes: object) -> Callable[[bytes], bytes]:
    return lambda state: json.dumps({**json.loads(state), **changes}).encode()


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: b"",
        lambda state: state[: len(state) // 2],
        lambda state: b"[1]",
        lambda state: b"null",
        lambda state: b"\xff\xfe" + state,
        without("settings"),
        without("n_bytes"),
        without("progress"),
        changed(n_bytes=10**9),
        changed(n_bytes=None),
        changed(n_bytes="3"),
        changed(progress=None),
    ],
)
def test_a_state_that_does_not_fit_is_as_good_as_none(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    out = tmp_path / "out.gz"
    _, state = killed(out, 3)
    state.write_bytes(damage(state.read_bytes()))
    assert write(out, resume=True) == [0, 1, 2, 3, 4]
    assert unpacked(out) == WHOLE


@pytest.mark.parametrize("left", [0, 1, -1])
def test_data_that_were_lost_are_computed_again(tmp_path: Path, left: int) -> None:
    """A state may outlive its data where the power fails."""
    out = tmp_path / "out.gz"
    data, _ = killed(out, 3)
    data.write_bytes(data.read_bytes()[:left])
    assert write(out, resume=True) == [0, 1, 2, 3, 4]
    assert unpacked(out) == WHOLE


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("damaged", [".partial", ".partial.json"])
def test_data_that_a_disk_changed_are_computed_again(
    damaged: str, suffix: str, tmp_path: Path
) -> None:
    out = tmp_path / f"o{suffix}"
    data, state = killed(out, 3)
    if damaged == ".partial":
        content = bytearray(data.read_bytes())
        content[5] ^= 1
        data.write_bytes(content)
    else:
        record = json.loads(state.read_text())
        record["progress"]["blocks"] = 2
        state.write_text(json.dumps(record))
    assert write(out, resume=True) == [0, 1, 2, 3, 4]
    assert unpacked(out) == WHOLE


def test_a_state_of_an_earlier_version_is_continued(tmp_path: Path) -> None:
    """It has no digest."""
    _, state = killed(tmp_path / "o", 3)
    record = json.loads(state.read_text())
    del record["digest"]
    state.write_text(json.dumps(record))
    assert write(tmp_path / "o", resume=True) == [3, 4]


def test_a_state_without_data(tmp_path: Path) -> None:
    out = tmp_path / "out"
    data, _ = killed(out, 3)
    data.unlink()
    assert write(out, resume=True) == [0, 1, 2, 3, 4]
    assert out.read_bytes() == WHOLE


@pytest.mark.parametrize(
    "settings",
    [{**SETTINGS, "shard": [1, 2]}, {**SETTINGS, "columns": ("per-word",)}, {**SETTINGS, "a": 1}],
)
def test_a_part_made_with_other_settings_is_not_continued(tmp_path: Path, settings: Any) -> None:
    out = tmp_path / "out"
    killed(out, 3, settings)
    assert write(out, resume=True) == [0, 1, 2, 3, 4]
    assert out.read_bytes() == WHOLE


def test_without_resume_nothing_is_continued(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _, state = killed(out, 3)
    with pytest.raises(Killed):
        write(out, n_blocks=0)
    assert not state.exists()
    assert write(out, resume=True) == [0, 1, 2, 3, 4]


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    real, link = tmp_path / "folder" / "real.gz", tmp_path / "link.gz"
    link.symlink_to(real)
    with pytest.raises(Killed):
        write(link, n_blocks=2)
    assert names(real.parent) == [".real.gz.partial", ".real.gz.partial.json"]
    assert write(link, resume=True) == [2, 3, 4]
    assert link.is_symlink() and unpacked(real) == WHOLE
    assert names(tmp_path) == ["folder", "link.gz"] and names(real.parent) == ["real.gz"]


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").write_bytes(b"")
    with pytest.raises(OSError, match="folder"):
        PartialFile(tmp_path / "folder" / "out", SETTINGS, resume=False)


def test_a_full_disk_leaves_what_was_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    data, state = killed(out, 2)

    class Full:
        def write(self, member: bytes) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    with pytest.raises(OSError, match="No space left"), PartialFile(out, SETTINGS, True) as sink:
        sink._stream.close()
        monkeypatch.setattr(sink, "_stream", Full())
        sink.append(b"x", {"blocks": 1})
    assert json.loads(state.read_bytes())["progress"]["blocks"] == 2
    assert data.read_bytes() == BLOCKS[0] + BLOCKS[1]
    assert write(out, resume=True) == [2, 3, 4]


def test_what_fails_before_the_first_block_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        write(tmp_path / "out", n_blocks=0)
    assert names(tmp_path) == []


def test_a_file_without_blocks_is_empty(tmp_path: Path) -> None:
    with PartialFile(tmp_path / "out", SETTINGS, resume=False) as sink:
        sink.publish()
    assert names(tmp_path) == ["out"] and (tmp_path / "out").read_bytes() == b""


def test_a_signal_before_the_first_block_leaves_nothing(tmp_path: Path) -> None:
    """Behind it the data are kept for the next run."""
    with PartialFile(tmp_path / "out", SETTINGS, resume=False) as sink:
        assert names(tmp_path) == [".out.partial"]
        remove_unfinished()
        assert names(tmp_path) == []
    with PartialFile(tmp_path / "out", SETTINGS, resume=False) as sink:
        sink.append(b"block", {})
        remove_unfinished()
        assert names(tmp_path) == [".out.partial", ".out.partial.json"]


@pytest.mark.parametrize("resume", [False, True])
def test_the_first_of_two_writers_publishes_nothing_of_the_other(
    tmp_path: Path, resume: bool
) -> None:
    """Without a lock, as where a file system has none: one file is whole, and the other writer is told."""
    out = tmp_path / "out"
    with PartialFile(out, SETTINGS, False) as first:
        first.append(BLOCKS[0], {"blocks": 1})
        (tmp_path / ".out.partial.json").unlink()  # so that resuming finds nothing to continue
        with PartialFile(out, {**SETTINGS, "other": 1}, resume) as second:
            first.append(BLOCKS[1], {"blocks": 1})
            second.append(BLOCKS[2], {"blocks": 1})
            with pytest.raises(UserError, match="another command has written there"):
                first.publish()
            assert not out.exists()
            second.publish()
            with pytest.raises(UserError, match="another command has written there"):
                first.publish()
    assert out.read_bytes() == BLOCKS[2]


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """/dev/full has no room for anything."""
    sink = PartialFile(tmp_path / "out", SETTINGS, False)
    sink._stream.close()
    sink._stream = open("/dev/full", "wb")  # noqa: SIM115
    with pytest.raises(OSError, match="No space left") as caught, sink:
        sink.append(b"block", {})
    assert caught.value.filename == str(tmp_path / ".out.partial")
    assert names(tmp_path) == []


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "pipe.gz"
    os.mkfifo(path)
    yield path


def test_a_pipe_gets_the_same_bytes(pipe: Path, tmp_path: Path) -> None:
    write(whole := tmp_path / "whole.gz")
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_bytes)
        with StreamOutput(pipe) as sink:
            for block in BLOCKS:
                sink.append(compress(block, pipe), {"blocks": 1})
            assert sink.progress == {"blocks": len(BLOCKS)}
            sink.publish()
        assert read.result(timeout=60) == whole.read_bytes()
    assert pipe.is_fifo() and names(tmp_path) == ["pipe.gz", "whole.gz"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("data", [b"\n", b"a", b"a\n" * 100_000])
def test_a_member_is_the_same_for_the_same_data(tmp_path: Path, suffix: str, data: bytes) -> None:
    """Else a run that was resumed would differ from one that was not."""
    out = tmp_path / f"out{suffix}"
    member = compress(data, out)
    assert compress(data, tmp_path / f"other{suffix}") == member
    out.write_bytes(member)
    assert unpacked(out) == data
