from __future__ import annotations

import re

import pytest

from moses_bridge.base import progress
from moses_bridge.base.progress import Progress, track


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


def test_what_is_left(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 101.5, 102.5, 102.5, 110.0, 118.0, 118.0, 120.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with Progress("score", total=100, unit="rows", done=50) as shown:
        shown.update(4)  # after 1.5 s: nothing yet
        shown.update(1)  # after 2.5 s: the first line
        shown.update(5)  # 7.5 s later: nothing
        shown.update(20)  # 15.5 s later
    assert capsys.readouterr().err.splitlines() == [
        "score: 55/100 (55%) rows, 2 s, 2/s, 22 s left",
        "score: 80/100 (80%) rows, 18 s, 2/s, 12 s left",
        "score: 80/100 (80%) rows, 20 s, 2/s, 13 s left",
    ]


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
    assert "work: 100%" in printed and "3/3" in printed


def test_a_silent_process_shows_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_SAYS", {"progress": True})
    progress.quiet()
    assert [*track([1, 2], "count")] == [1, 2]
    progress.print_note("a note")
    assert capsys.readouterr() == ("", "")
