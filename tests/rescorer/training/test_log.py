"""The event file, read by the TFRecord framing and TensorFlow's own messages, next to training.jsonl."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import masked_crc32c

from moses_bridge.base.errors import InputError
from rescorer.contract.trained_model import LOG_NAME
from rescorer.training.log import TAGS, LogRecord, TrainingLog


def record(update: int, held_out: float | None = 1.5) -> LogRecord:
    return LogRecord(update, update / 4, update / 2, 2.0 - update / 8, held_out, 0.25)


def events_of(folder: Path) -> Iterator[Event]:
    """Length, its checksum, data, its checksum: TensorFlow, tensorflow/core/lib/io/record_writer.h."""
    (path,) = folder.glob("*tfevents*")
    data = path.read_bytes()
    while data:
        length, length_sum = struct.unpack("<QI", data[:12])
        event, (event_sum,) = data[12 : 12 + length], struct.unpack("<I", data[12 + length :][:4])
        assert (length_sum, event_sum) == (masked_crc32c(data[:8]), masked_crc32c(event))
        yield Event.FromString(event)
        data = data[16 + length :]


def points_of(folder: Path) -> dict[tuple[str, int], float]:
    points = [
        ((value.tag, event.step), value.simple_value)
        for event in events_of(folder)
        for value in event.summary.value
    ]
    assert len(dict(points)) == len(points)
    return dict(points)


def assert_same_numbers(folder: Path) -> None:
    """Each number of training.jsonl is one point, and there are no others."""
    lines = [json.loads(line) for line in (folder / LOG_NAME).read_text().splitlines()]
    expected = {
        (tag, line["update"]): pytest.approx(line[name])
        for line in lines
        for name, tag in TAGS.items()
        if line[name] is not None
    }
    assert points_of(folder) == expected


def test_points_are_there_as_soon_as_they_are_logged(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path, last_update=-1, minutes=0)
    log.append(record(4))
    log.append(record(8, held_out=None))
    assert_same_numbers(tmp_path)
    tags = {tag for tag, step in points_of(tmp_path) if step == 8}
    assert tags == {"loss/training", "learning_rate", "epoch"}
    log.close()
    version, start, first, second = events_of(tmp_path)
    assert version.file_version == "brain.Event:2"
    assert (start.step, start.session_log.status) == (0, SessionLog.START)
    assert second.wall_time - first.wall_time == pytest.approx(120)
    assert first.wall_time - start.wall_time == pytest.approx(120)


@pytest.mark.parametrize("rest", [b"", b'{"update": 12, "ep'])
def test_what_comes_again_is_dropped(tmp_path: Path, rest: bytes) -> None:
    log = TrainingLog(tmp_path, last_update=-1, minutes=0)
    for update in (4, 8, 12):
        log.append(record(update))
    log.close()
    with (tmp_path / LOG_NAME).open("ab") as stream:
        stream.write(rest)
    again = TrainingLog(tmp_path, last_update=8, minutes=5)
    assert_same_numbers(tmp_path)
    again.append(record(12, held_out=1.25))
    again.close()
    assert_same_numbers(tmp_path)
    points = points_of(tmp_path)
    assert [points["loss/held_out", update] for update in (4, 8, 12)] == [1.5, 1.5, 1.25]


@pytest.mark.parametrize("name", [LOG_NAME, "events"])
def test_a_training_goes_on_where_its_log_has_no_room(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """/dev/full has no room for anything."""
    log = TrainingLog(tmp_path, -1, 0.0)
    if name == LOG_NAME:
        log.path = full = Path("/dev/full")
    else:
        full = log._events.path
        log._events.close()
        log._events._writer._writer = open("/dev/full", "wb", buffering=0)  # noqa: SIM115
    log.append(LogRecord(1, 1.0, 1.0, 1.0, 1.0, 1.0))
    assert f"No space left on device: '{full}'; the log lacks a record" in capsys.readouterr().err
    log.close()


def test_a_link_in_the_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "config").touch()
    (tmp_path / LOG_NAME).symlink_to("config")
    log = TrainingLog(tmp_path, -1, 0.0)
    log.append(record(4))
    log.close()
    assert (tmp_path / "config").read_bytes() == b""
    (tmp_path / LOG_NAME).unlink()
    (tmp_path / LOG_NAME).symlink_to("/dev/zero")
    with pytest.raises(InputError, match="found a directory, a pipe or a device"):
        TrainingLog(tmp_path, 4, 0.0)


def test_a_new_training_begins_a_new_log(tmp_path: Path) -> None:
    for _ in range(2):
        log = TrainingLog(tmp_path, last_update=-1, minutes=0)
        log.append(record(4))
        log.close()
    assert len((tmp_path / LOG_NAME).read_text().splitlines()) == 1
    assert_same_numbers(tmp_path)


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"")
    with pytest.raises(OSError, match="m"):
        TrainingLog(tmp_path / "m", last_update=-1, minutes=0)


def test_a_log_of_something_else_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / LOG_NAME).write_text('{"update": 4, "step": 1}\n')
    with pytest.raises(InputError, match=rf"{LOG_NAME}:1: found .*step.*expected what a training"):
        TrainingLog(tmp_path, last_update=8, minutes=0)
