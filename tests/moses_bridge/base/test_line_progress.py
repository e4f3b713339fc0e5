from __future__ import annotations

import bz2
import gzip
import os
import random
from pathlib import Path

import pytest

from moses_bridge.base import line_progress
from moses_bridge.base.line_progress import LineProgress, estimated_lines, track_blocks, track_lines

RNG = random.Random(1)
LINES = [b"number %d ||| %f" % (number, RNG.random()) for number in range(50_000)]
TEXT = b"".join(line + b"\n" for line in LINES)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_short_file_is_counted(tmp_path: Path) -> None:
    assert estimated_lines(written(tmp_path / "text", b"one\ntwo\nthree\n")) == 3
    assert estimated_lines(written(tmp_path / "text.gz", gzip.compress(b"one\ntwo\n"))) == 2


def test_members_of_gzip_count_together(tmp_path: Path) -> None:
    data = gzip.compress(b"one\ntwo\n") + gzip.compress(b"three\n")
    assert estimated_lines(written(tmp_path / "text.gz", data)) == 3


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_long_file_is_estimated_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: object
) -> None:
    assert callable(pack)
    data = pack(TEXT)
    monkeypatch.setattr(line_progress, "BYTES_SEEN", len(data) // 10)
    found = estimated_lines(written(tmp_path / "text", data))
    assert found == pytest.approx(len(LINES), rel=0.1)


def test_what_cannot_be_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    packed = bz2.compress(TEXT)
    damaged = gzip.compress(TEXT)[:20] + b"\xff" * 50
    for path in (
        "-",
        tmp_path / "none",
        tmp_path,
        tmp_path / "pipe",
        written(tmp_path / "empty", b""),
        written(tmp_path / "text.bz2", packed),
        written(tmp_path / "damaged.gz", damaged),
    ):
        assert estimated_lines(path) is None


def test_at_the_end_all_lines_are_done_whatever_was_estimated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "text", b"short\n" * 4 + b"a much longer line than those\n" * 4)
    monkeypatch.setattr(line_progress, "BYTES_SEEN", 24)
    assert estimated_lines(path) == 24
    assert len(list(track_lines(path.read_bytes().splitlines(), "read", path))) == 8
    assert capsys.readouterr().err.startswith("read: 8/8 (100%) rows, ")
    monkeypatch.setattr(line_progress, "estimated_lines", lambda path: 3)
    assert len(list(track_lines(path.read_bytes().splitlines(), "read", path))) == 8
    assert capsys.readouterr().err.startswith("read: 8/8 (100%) rows, ")


def test_an_error_is_not_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "text", b"one\ntwo\n")
    with pytest.raises(RuntimeError), LineProgress("read", path) as progress:
        progress.update()
        raise RuntimeError
    assert progress.total == 2
    assert capsys.readouterr().err == ""


def test_blocks_count_by_their_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "text", b"one\ntwo\nthree\n")
    assert list(track_blocks([["one", "two"], ["three"]], "read", path)) == [
        ["one", "two"],
        ["three"],
    ]
    assert capsys.readouterr().err.startswith("read: 3/3 (100%) rows, ")
