"""Event files, read by the TFRecord framing and TensorFlow's own messages."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import masked_crc32c

from rescorer.training.event_file import EventFile


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


def test_a_session_begins_and_each_update_is_an_event(tmp_path: Path) -> None:
    events = EventFile(tmp_path, started=1000.0)
    events.append(4, 0.5, {"loss": 2.5, "rate": 0.125})
    version, start, event = events_of(tmp_path)  # before it is closed
    assert (version.file_version, version.wall_time) == ("brain.Event:2", 1000.0)
    assert (start.step, start.session_log.status) == (0, SessionLog.START)
    assert (event.step, event.wall_time) == (4, 1030.0)
    assert {value.tag: value.simple_value for value in event.summary.value} == {
        "loss": 2.5,
        "rate": 0.125,
    }
    events.append(8, 1.0, {})
    events.close()
    assert [event.step for event in events_of(tmp_path)] == [0, 0, 4, 8]


def test_it_takes_the_place_of_older_files_and_of_no_others(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1.training").write_bytes(b"older")
    (tmp_path / "events.txt").write_bytes(b"other")
    EventFile(tmp_path, started=0.0).close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2 and "events.txt" in names
    assert "events.out.tfevents.1.training" not in names


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        EventFile(tmp_path / "none", started=0.0)
