from __future__ import annotations

import bz2
import gzip
import os
import random
import re
from pathlib import Path

import pytest

from moses_bridge.base import progress
from moses_bridge.base.progress import (
    LineProgress,
    Progress,
    duration,
    estimated_lines,
    exclude_seconds,
    track,
    track_blocks,
    track_lines,
)

RNG = random.Random(1)
LINES = [b"number %d ||| %f" % (number, RNG.random()) for number in range(50_000)]
TEXT = b"".join(line + b"\n" for line in LINES)


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def as_on_a_quick_machine() -> None:
    """The clock of these tests goes when it is told to."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_a_log_gets_one_line_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track(range(1500), "count", unit="rows")) == list(range(1500))
    assert re.fullmatch(r"count: 1,500 rows, \d+ s(, [\d,]+/s)?\n", capsys.readouterr().err)


def test_share_and_note(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOG_LINES", 0.0)
    with Progress("train", total=8, unit="pairs") as shown:
        shown.update(2, "loss 3.5")
        shown.update(4)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "train: 2/8 (25%) pairs",
        *["train: 6/8 (75%) pairs"] * 2,
    ]
    assert all(line.endswith(", loss 3.5") for line in lines)
    assert shown.done == 6


def test_what_is_left_goes_by_the_rate_since_the_first_update(
    capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    with Progress("score", total=100, unit="rows", done=50) as shown:
        clock.now += 60.0
        shown.update(4)  # it has waited for compiled code: a minute says nothing of the others
        clock.now += 15.5
        shown.update(1)  # 49 more at 1 in 15.5 s
        clock.now += 15.5
        shown.update(21)
    assert capsys.readouterr().err.splitlines() == [
        "score: 54/100 (54%) rows, 60 s",
        "score: 55/100 (55%) rows, 76 s, 11 min 38 s left",  # 45 * 15.5 s
        "score: 76/100 (76%) rows, 91 s, 34 s left",  # 24 * 31 s / 22
        "score: 76/100 (76%) rows, 91 s, 34 s left",
    ]


def test_the_time_left_is_in_a_log_after_seconds(
    capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    with Progress("train", total=100, unit="updates") as shown:
        for _ in range(25):
            clock.now += 1.0
            shown.update()
    assert capsys.readouterr().err.splitlines() == [
        "train: 2/100 (2%) updates, 2 s, 1/s",
        "train: 5/100 (5%) updates, 5 s, 1/s, 1 min 35 s left",
        "train: 20/100 (20%) updates, 20 s, 1/s, 1 min 20 s left",
        "train: 25/100 (25%) updates, 25 s, 1/s, 1 min 15 s left",
    ]


@pytest.mark.parametrize(
    ("seconds", "n_units", "left"),
    [
        (1.0, 2, ""),  # 2% in 1 s say little
        (1.0, 3, ", 32 s left"),
        (3.0, 1, ", 4 min 54 s left"),
    ],
)
def test_nothing_is_estimated_from_too_little(
    capsys: pytest.CaptureFixture[str], clock: Clock, seconds: float, n_units: int, left: str
) -> None:
    with Progress("score", total=100, unit="rows") as shown:
        shown.update(1)
        clock.now += seconds
        shown.update(n_units)
    line = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(rf"score: .* rows, {seconds:.0f} s(, \d+/s)?{left}", line)


def test_excluded_seconds_count_in_no_rate(
    capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    with Progress("decode", total=100) as shown:
        shown.update(10)
        clock.now += 400
        exclude_seconds(390.0)
        shown.update(10)
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == "decode: 20/100 (20%) lines, 400 s, 2/s, 1 min 20 s left"


def test_a_share_in_place_of_a_total(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    """Three minutes of training, one of them done by an earlier run."""
    with Progress("train", unit="updates", done=30, share=1 / 3) as shown:
        clock.now += 10
        shown.update(share=70 / 180)
        clock.now += 50
        shown.update(share=120 / 180)
        clock.now += 61
        shown.update(share=181 / 180)
    assert capsys.readouterr().err.splitlines() == [
        "train: 31 updates (39%), 10 s",
        "train: 32 updates (67%), 60 s, 1 min 00 s left",
        "train: 33 updates (100%), 121 s",
        "train: 33 updates (100%), 121 s",
    ]


def test_one_progress_is_shown_at_a_time(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with Progress("outer", total=2) as outer:
        with Progress("inner", total=3) as inner:
            clock.now += 20
            outer.update()  # from another thread, say
            assert capsys.readouterr().err == ""
            inner.update()
        assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()] == [
            "inner: 1/3 (33%) lines",
            "inner: 1/3 (33%) lines",
        ]
        outer.update()
    assert {line.split(",")[0] for line in capsys.readouterr().err.splitlines()} == {
        "outer: 2/2 (100%) lines"
    }


def test_no_last_line_after_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError), Progress("work") as shown:
        shown.update()
        raise RuntimeError
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Progress("work", total=3, unit="rows") as shown:
        shown.update(3, "loss 1")
    printed = capsys.readouterr().err
    assert "work: 100%" in printed and "3/3 rows [" in printed and ", loss 1]" in printed


def test_a_bar_makes_room_for_the_one_inside_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Progress("outer", total=2) as outer:
        outer.update()
        with Progress("inner", unit="updates", share=0.0) as inner:
            inner.update(share=0.5, note="loss 2")
        outer.update()
    # What stays on the screen: the last text of each line.
    lines = [line.split("\r")[-1] for line in capsys.readouterr().err.split("\n")]
    assert [line.split("|")[0] for line in lines if line] == ["inner:  50%", "outer: 100%"]
    assert lines[0].endswith(", loss 2]")


def test_a_silent_process_shows_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_VISIBLE", {"progress": True})
    progress.quiet()
    assert [*track([1, 2], "count")] == [1, 2]
    progress.print_note("a note")
    assert capsys.readouterr() == ("", "")
    progress.quiet(False)
    assert [*track([1, 2], "count")] == [1, 2]
    assert capsys.readouterr().err.startswith("count: 2 lines")


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
    monkeypatch.setattr(progress, "BYTES_SEEN", len(data) // 10)
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
    monkeypatch.setattr(progress, "BYTES_SEEN", 24)
    assert estimated_lines(path) == 24
    assert len(list(track_lines(path.read_bytes().splitlines(), "read", path))) == 8
    assert capsys.readouterr().err.startswith("read: 8/8 (100%) rows, ")
    monkeypatch.setattr(progress, "estimated_lines", lambda path: 3)
    assert len(list(track_lines(path.read_bytes().splitlines(), "read", path))) == 8
    assert capsys.readouterr().err.startswith("read: 8/8 (100%) rows, ")


def test_an_error_is_not_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "text", b"one\ntwo\n")
    with pytest.raises(RuntimeError), LineProgress("read", path) as shown:
        shown.update()
        raise RuntimeError
    assert shown.total == 2
    assert capsys.readouterr().err == ""


def test_blocks_count_by_their_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "text", b"one\ntwo\nthree\n")
    assert list(track_blocks([["one", "two"], ["three"]], "read", path)) == [
        ["one", "two"],
        ["three"],
    ]
    assert capsys.readouterr().err.startswith("read: 3/3 (100%) rows, ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min 00 s"),
        (3599.7, "1 h 00 min"),
        (7620, "2 h 07 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
