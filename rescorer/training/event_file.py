"""The event file of a training, for TensorBoard."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import RecordWriter

from moses_bridge.base.textio import named_errors

# What TensorBoard expects in the first record.
FILE_VERSION = "brain.Event:2"


class EventFile:
    """Scalars by update, in a new file that replaces the directory's older ones; close it at the end.

    It begins with a session start at step 0, so that an open TensorBoard that has read an older file forgets
    its points (with the default loader; if started with --load_fast=false, restart it). Started is the time
    of the training's start, seconds since 1970, excluding pauses between interrupted runs.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, directory: Path, started: float) -> None:
        for older in directory.glob("events.out.tfevents.*"):
            older.unlink()
        self._started = started
        self.path = directory / f"events.out.tfevents.{time.time():.0f}.training"
        self._writer = RecordWriter(str(self.path))
        self._write(Event(wall_time=started, file_version=FILE_VERSION))
        start = SessionLog(status=SessionLog.START)
        self._write(Event(wall_time=started, step=0, session_log=start))

    def append(self, update: int, minutes: float, values: Mapping[str, float]) -> None:
        """Write the values of an update, by tag, to the disk; minutes are those of training so far."""
        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        wall_time = self._started + 60 * minutes
        self._write(Event(wall_time=wall_time, step=update, summary=Summary(value=scalars)))

    def _write(self, event: Event) -> None:
        with named_errors(self.path):
            self._writer.write(event.SerializeToString())
            self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
