"""The log of a training: JSON lines and, with tensorboardX, an event file with the same numbers."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.json_files import check_plain_file, parse_json, record_of
from moses_bridge.base.progress import unless_full
from moses_bridge.base.textio import append_line, write_lines
from rescorer.contract.trained_model import LOG_NAME

if TYPE_CHECKING:
    from rescorer.training.event_file import EventFile

TAGS = {
    "training_loss": "loss/training",
    "held_out_loss": "loss/held_out",
    "learning_rate": "learning_rate",
    "epoch": "epoch",
}


@dataclass(frozen=True)
class LogRecord:
    """The progress of a training.

    Attributes:
        update: number of updates.
        epoch: number of passes over the data, the last one in part.
        minutes: of training.
        training_loss: of the last update's batch, nats per word with </s>; None before the first.
        held_out_loss: nats per word with </s>; None without held-out data.
        learning_rate: of the next update.
    """

    update: int
    epoch: float
    minutes: float
    training_loss: float | None
    held_out_loss: float | None
    learning_rate: float


class TrainingLog:
    """training.jsonl of a directory and, if tensorboardX is installed, its event file; close it at the end.

    Records after last_update (-1 begins a new log) are dropped, since a resumed training repeats them; the
    event file is rewritten from the rest. Minutes are those of training so far.

    Raises:
        InputError: the log of an earlier run is malformed.
        OSError: a file cannot be written.
    """

    def __init__(self, directory: Path, last_update: int, minutes: float) -> None:
        self.path = directory / LOG_NAME
        records = [record for record in self._records() if record.update <= last_update]
        write_lines(self.path, [_line(record) for record in records])
        self._events = _event_file(directory, time.time() - 60 * minutes)
        for record in records:
            self._append_event(record)

    def _records(self) -> list[LogRecord]:
        if not self.path.exists():
            return []
        check_plain_file(self.path)
        lines = self.path.read_bytes().split(b"\n")[:-1]
        return [_record(line, self.path, number) for number, line in enumerate(lines, start=1)]

    def append(self, record: LogRecord) -> None:
        """Write a record to both files; where there is no room, a note says so.

        Raises:
            OSError: a file cannot be written for another reason; the error names it.
        """
        with unless_full(self.path, "the log lacks a record"):
            append_line(self.path, _line(record))
            self._append_event(record)

    def _append_event(self, record: LogRecord) -> None:
        values = {TAGS[name]: value for name, value in asdict(record).items() if name in TAGS}
        known = {tag: value for tag, value in values.items() if value is not None}
        if self._events is not None:
            self._events.append(record.update, record.minutes, known)

    def close(self) -> None:
        """Close the files."""
        if self._events is not None:
            self._events.close()


def _event_file(directory: Path, started: float) -> EventFile | None:
    """The event file; None without tensorboardX, which belongs to the extra `views`."""
    try:
        from rescorer.training.event_file import EventFile
    except ModuleNotFoundError:
        return None
    return EventFile(directory, started)


def _record(line: bytes, path: Path, line_number: int) -> LogRecord:
    what, hint = "what a training has logged", "Remove the file, or train into another directory"
    try:
        return record_of(LogRecord, parse_json(line, path), path, what)
    except InputError as error:
        found = f"{shown(line)} ({error.found})"
        raise InputError(path, line_number, found, what, hint) from error


def _line(record: LogRecord) -> bytes:
    return json.dumps(asdict(record)).encode()
