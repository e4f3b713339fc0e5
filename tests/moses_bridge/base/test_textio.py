from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from moses_bridge.base import textio
from moses_bridge.base.blocks import read_whole_lines
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import (
    count_lines,
    open_read,
    open_write,
    read_bytes,
    read_lines,
    write_lines,
)

SUFFIXES = ["", ".gz", ".bz2", ".xz", ".zst"]
LINES = [b"a", b"", b"b\r", b"\x0b \x0c \x1c \x85", b"\xc2\x85 \xe2\x80\xa8", b"\xff\xfe", b"\0 c "]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_lines_end_at_the_line_feed_alone(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    write_lines(path, LINES)
    assert list(read_lines(path)) == LINES
    assert count_lines(path) == len(LINES)
    with open_read(path) as stream:
        assert stream.read() == b"\n".join(LINES) + b"\n"


def test_compression_is_the_standard_one(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.gz", LINES)
    write_lines(tmp_path / "a.xz", LINES)
    expected = b"\n".join(LINES) + b"\n"
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == expected
    assert lzma.decompress((tmp_path / "a.xz").read_bytes()) == expected


@pytest.mark.parametrize(
    ("text", "lines"), [(b"", []), (b"\n", [b""]), (b"a\nb", [b"a", b"b"]), (b"a\n\n", [b"a", b""])]
)
def test_ends_of_files(tmp_path: Path, text: bytes, lines: list[bytes]) -> None:
    (tmp_path / "text").write_bytes(text)
    assert list(read_lines(tmp_path / "text")) == lines


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_lines_give_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    write_lines(first, LINES)
    write_lines(second, iter(LINES))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES[1:])
@pytest.mark.parametrize("damage", ["cut", "changed", "foreign"])
def test_damaged_data_is_told(tmp_path: Path, suffix: str, damage: str) -> None:
    path = tmp_path / f"text{suffix}"
    write_lines(path, [b"%d" % (number**3) for number in range(5000)])
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "changed":
        middle = len(data) // 2
        data[middle : middle + 8] = bytes(8)
    else:
        data = bytearray(b"plain text\n" * 9)
    path.write_bytes(data)
    with pytest.raises(
        InputError, match=r"found damaged data \(.*expected a complete file"
    ) as error:
        list(read_lines(path))
    assert error.value.line is not None and error.value.line >= 1


def test_text_may_begin_as_bzip2_data_do(tmp_path: Path) -> None:
    """Without a suffix such data are read all the same, as bzip2 itself makes them (and of nothing too)."""
    (tmp_path / "text").write_bytes(b"BZh9 a\nb\n")
    assert list(read_lines(tmp_path / "text")) == [b"BZh9 a", b"b"]
    (tmp_path / "short").write_bytes(b"BZh")
    assert list(read_lines(tmp_path / "short")) == [b"BZh"]
    for name, lines in (("data", [b"a", b"b"]), ("nothing", [])):
        text = b"".join(line + b"\n" for line in lines)
        (tmp_path / name).write_bytes(bz2.compress(text))
        assert list(read_lines(tmp_path / name)) == lines
    (tmp_path / "text.bz2").write_bytes(b"BZh9 a\nb\n")
    with pytest.raises(InputError, match="damaged data"):
        list(read_lines(tmp_path / "text.bz2"))


@pytest.mark.parametrize("name", ["nowhere", "nowhere.gz", "."])
def test_files_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="expected a readable file"):
        list(read_lines(tmp_path / name))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    write_lines(path, [b"old"])
    with pytest.raises(RuntimeError, match="on the way"), open_write(path) as stream:
        stream.write(b"new\n")
        assert list(read_lines(path)) == [b"old"]
        raise RuntimeError("on the way")
    assert list(read_lines(path)) == [b"old"]
    assert os.listdir(tmp_path) == [path.name]


def test_new_files_have_usual_permissions_and_folders(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_lines(tmp_path / "a" / "b" / "text", [b"x"])
    finally:
        os.umask(before)
    mode = (tmp_path / "a" / "b" / "text").stat().st_mode
    assert stat.S_IMODE(mode) == 0o640


@pytest.mark.parametrize("name", ["real", "missing"])
def test_a_link_is_replaced_and_only_one_that_the_user_names_is_followed(
    tmp_path: Path, name: str
) -> None:
    write_lines(tmp_path / "real", [b"old"])
    (tmp_path / "link").symlink_to(tmp_path / name)
    assert textio.without_link(tmp_path / "link") == tmp_path / name
    write_lines(tmp_path / "link", [b"new"])
    assert not (tmp_path / "link").is_symlink()
    assert list(read_lines(tmp_path / "link")) == [b"new"]
    assert list(read_lines(tmp_path / "real")) == [b"old"]
    assert not (tmp_path / "missing").exists()


def test_a_link_to_a_device_stays_one() -> None:
    assert textio.without_link("/dev/stdin") == Path("/dev/stdin")


def test_a_line_is_appended_whole_or_not_at_all_and_never_to_what_a_link_names(
    tmp_path: Path,
) -> None:
    textio.append_line(tmp_path / "log", b"one")
    textio.append_line(tmp_path / "log", b"two")
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"
    (tmp_path / "link").symlink_to("log")
    with pytest.raises(OSError, match="link"):
        textio.append_line(tmp_path / "link", b"three")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(OSError, match="No space"):
            textio.append_line(tmp_path / "log", b"three")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handled)
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("name", ["a" * 255, "é" * 127 + "x", "b" * 252 + ".gz"])
def test_the_longest_names_can_be_written(tmp_path: Path, name: str) -> None:
    """255 bytes are the limit of most file systems."""
    write_lines(tmp_path / name, [b"x"])
    assert list(read_lines(tmp_path / name)) == [b"x"]
    with textio.open_directory(tmp_path / "folder" / name) as directory:
        (directory / "file").write_text("x")
    assert sorted(os.listdir(tmp_path)) == sorted(["folder", name])


@pytest.mark.parametrize(
    "read", [read_lines, textio.read_bytes, textio.read_pieces, read_whole_lines]
)
def test_want_of_memory_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], Iterable[object]]
) -> None:
    class Large(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise MemoryError

        read1 = read

    monkeypatch.setattr(textio, "open_read", lambda path: Large())
    with pytest.raises(MemoryError):
        list(read(tmp_path / "large"))


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_lines(pipe, [b"x"])
    reader.join()
    assert found == [b"x\n"]
    assert pipe.is_fifo()


def test_devices_stay_devices() -> None:
    write_lines("/dev/null", [b"x"])
    assert not Path("/dev/null").is_file()


def test_standard_streams() -> None:
    program = "from moses_bridge.base.textio import *; write_lines('-', read_lines('-'))"
    text = b"a\r\n\xff \x85\nend"
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, input=text, capture_output=True, check=True)
    assert result.stdout == text + b"\n"


def test_standard_input_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    assert list(read_lines("-")) == [b"a", b"b"]


def test_lines_longer_than_what_is_read_at_a_time(tmp_path: Path) -> None:
    lines = [b"x" * n for n in (0, 2**18 - 1, 2**18, 2**18 + 1, 10**6, 0, 5)]
    write_lines(tmp_path / "long.gz", lines)
    assert list(read_lines(tmp_path / "long.gz")) == lines


def test_of_a_pipe_lines_are_had_as_they_come() -> None:
    program = "import moses_bridge.base.textio as t\nfor line in t.read_lines('-'): print(line, flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"a\nb\n")
        process.stdin.flush()
        assert process.stdout.readline() + process.stdout.readline() == b"b'a'\nb'b'\n"


def test_a_long_line_takes_time_in_proportion_to_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line of 32,768 pieces; joined piece by piece it would copy 4 GB."""
    monkeypatch.setattr("moses_bridge.base.textio.PIECE_BYTES", 8)
    line = b"x" * (1 << 18)
    path = tmp_path / "long"
    path.write_bytes(b"short\n" + line + b"\n\n" + line)
    start = time.process_time()
    assert list(read_lines(path)) == [b"short", line, b"", line]
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 100])
def test_lines_do_not_depend_on_the_pieces_that_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr("moses_bridge.base.textio.PIECE_BYTES", piece)
    for text in (b"", b"\n", b"a", b"a\n", b"\n\na\nbcd\n\n", b"abcdefg\nh\n\nij"):
        (tmp_path / "text").write_bytes(text)
        lines = text.split(b"\n")
        assert list(read_lines(tmp_path / "text")) == (lines if lines[-1] else lines[:-1])


def test_damage_in_a_file_read_whole_is_told(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"abc" * 1000))
    assert read_bytes(path) == b"abc" * 1000
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(InputError, match="damaged data"):
        read_bytes(path)


def test_a_directory_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder"
    with textio.open_directory(target) as directory:
        (directory / "file").write_text("text")
        assert not target.exists()
    assert (target / "file").read_text() == "text"
    assert [path.name for path in target.parent.iterdir()] == ["folder"]
    assert (
        target.stat().st_mode == target.parent.stat().st_mode
    )  # as others may read what is made so


def test_of_a_directory_that_is_not_completed_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(InputError), textio.open_directory(tmp_path / "folder") as directory:
        (directory / "file").write_text("text")
        raise InputError("t", 3, "x", "y")
    assert not [*tmp_path.iterdir()]


def test_a_full_directory_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("text")
    for place, found in ((tmp_path, "files in it"), (tmp_path / "old", "a file")):
        with (
            pytest.raises(
                ConfigError, match=f"found {found}, expected a new or an empty directory"
            ),
            textio.open_directory(place),
        ):
            raise AssertionError("it is refused before any work is done")
    assert (tmp_path / "old").read_text() == "text"


def test_a_link_to_an_empty_directory_is_followed(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    with textio.open_directory(tmp_path / "link") as directory:
        (directory / "file").write_text("text")
    assert (tmp_path / "empty" / "file").read_text() == "text"


def test_unfinished_directories_are_removed_before_a_signal_ends_the_process(
    tmp_path: Path,
) -> None:
    with textio.temporary_directory("pairs", tmp_path) as directory:
        assert directory.stat().st_mode & 0o777 == 0o700
        (directory / "file").write_text("text")
        textio.remove_unfinished()
        assert not [*tmp_path.iterdir()]


def test_a_line_without_end_is_refused_and_the_limit_can_be_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three megabytes of one letter are 3 kB of gz."""
    path, long = tmp_path / "long.gz", b"a" * (3 << 20)
    write_lines(path, [b"first", long, b"last"])
    monkeypatch.setenv("MOSES_BRIDGE_LINE_MB", "2")
    with pytest.raises(InputError, match=r"long\.gz:2: found a line of more than 2 MiB.*MOSES_BRI"):
        list(read_lines(path))
    monkeypatch.setenv("MOSES_BRIDGE_LINE_MB", "3")
    assert list(read_lines(path)) == [b"first", long, b"last"]
    for value in ("", "0", "x", "-1", "9" * 30):
        monkeypatch.setenv("MOSES_BRIDGE_LINE_MB", value)
        with pytest.raises(ConfigError, match="expected a whole number of MiB"):
            list(read_lines(path))


def test_a_name_with_a_zero_byte_is_no_file() -> None:
    with pytest.raises(InputError, match="expected a readable file"):
        list(read_lines("a\0b"))


@pytest.mark.parametrize("n_lines", [1, 200_000])
def test_bytes_behind_the_end_of_gzip_data_are_told(tmp_path: Path, n_lines: int) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"a b\n" * n_lines) + b"garbage")
    with pytest.raises(InputError, match=r"Other bytes follow the end of the gzip data: gzip -dc"):
        list(read_lines(path))
    path.write_bytes(gzip.compress(b"a b\n" * n_lines)[:-9])
    with pytest.raises(InputError, match=r"expected a complete file\. Make it again"):
        list(read_lines(path))
