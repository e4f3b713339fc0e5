"""Training logs of networks, their charts, and which networks a tuning run uses."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.json_files import check_plain_file, parse_json, read_json
from moses_bridge.base.textio import read_bytes
from moses_bridge.formats.moses_ini import read_ini
from tuning.loop.run_directory import TuningRun
from tuning.report.page.chart import COLOURS, Chart, base_spec, number_axis, tooltip

LOG_NAME = "training.jsonl"
DESCRIPTION = "config.json"
KINDS: Sequence[str] = ("held out", "training")


@dataclass(frozen=True)
class LogPoint:
    """One evaluation.

    Attributes:
        epoch: number of passes over the data made, the last one in part.
        training_loss: nats per word; None before the first update.
        held_out_loss: nats per word; None without held-out data.
    """

    update: int
    epoch: float
    minutes: float
    training_loss: float | None
    held_out_loss: float | None


@dataclass(frozen=True)
class LearningCurve:
    """How the training of one network went.

    Attributes:
        architecture: its name, "" if it is not known (yet).
    """

    directory: Path
    architecture: str
    points: list[LogPoint]

    @property
    def last_loss(self) -> float | None:
        """The last held-out loss, nats per word."""
        known = [each.held_out_loss for each in self.points if each.held_out_loss is not None]
        return known[-1] if known else None


def read_learning_curve(directory: Path) -> LearningCurve:
    """Read DIRECTORY/training.jsonl; an unfinished last line, of a training still running, is left out.

    Raises:
        InputError: the log is missing or malformed.
    """
    path = directory / LOG_NAME
    check_plain_file(path)
    lines = read_bytes(path).split(b"\n")[:-1]
    points = [_point(line, path, number) for number, line in enumerate(lines, start=1)]
    description: Any = {}
    if (directory / DESCRIPTION).exists():
        description = read_json(directory / DESCRIPTION)
    named = description.get("architecture", "") if isinstance(description, dict) else ""
    return LearningCurve(directory, str(named), points)


def _point(line: bytes, path: Path, number: int) -> LogPoint:
    try:
        value = parse_json(line, path)
        losses = [_finite(value[key]) for key in ("training_loss", "held_out_loss")]
        epoch, minutes = float(value["epoch"]), float(value["minutes"])
        if not math.isfinite(epoch + minutes):
            raise ValueError("a number that is not finite")
        return LogPoint(int(value["update"]), epoch, minutes, *losses)
    except (KeyError, TypeError, ValueError, OverflowError, InputError) as error:
        found = f"{shown(line)} ({type(error).__name__}: {error})"
        raise InputError(path, number, found, "what rescorer train logs") from error


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def networks_of_runs(runs: Sequence[TuningRun]) -> list[Path]:
    """Model directories named in the runs' commands, and those of the models that scored their tables.

    Directories missing on this machine are left out.
    """
    found: dict[Path, Path] = {}
    for run in runs:
        for command in (*run.commands().values(), *_table_commands(Path(run.ini))):
            for directory in _model_directories(command):
                found.setdefault(directory.resolve(), directory)
    return [*found.values()]


def _table_commands(ini: Path) -> Iterator[str]:
    """The command lines of the tables of an ini: TABLE.json keeps that of `rescorer score`."""
    if not ini.exists():
        return
    parsed = read_ini(ini)
    for feature in parsed.features:
        if "path" in feature.arguments:
            described = Path(f"{parsed.resolve(feature.arguments['path'])}.json")
            if described.exists():
                made = read_json(described)
                yield str(made.get("command", "")) if isinstance(made, dict) else ""


def _model_directories(command: str) -> Iterator[Path]:
    try:
        words = shlex.split(command)
    except ValueError:  # a quote is not closed: no such command has been run
        return
    for word in words:
        for part in (word, word.partition("=")[2]):
            if part and (Path(part) / LOG_NAME).is_file():
                yield Path(part)


def learning_charts(curves: Mapping[str, LearningCurve]) -> list[Chart]:
    """The losses of each network, by its name, by passes over its data."""
    return [_learning_chart(*each, number) for number, each in enumerate(curves.items(), 1)]


def _learning_chart(name: str, curve: LearningCurve, number: int) -> Chart:
    rows = [
        {
            "loss": kind,
            "epoch": point.epoch,
            "nats": loss,
            "update": point.update,
            "minutes": point.minutes,
        }
        for point in curve.points
        for kind, loss in (("training", point.training_loss), ("held out", point.held_out_loss))
        if loss is not None
    ]
    spec = base_spec(rows, f"Training and held-out loss of {name} by passes over its data.", 220)
    spec["mark"] = {"type": "line", "point": {"size": 20}, "strokeWidth": 1.5}
    kinds: dict[str, object] = {"domain": KINDS, "range": [COLOURS[0], COLOURS[1]]}
    spec["encoding"] = {
        "x": number_axis("epoch", "passes over the data", grid=False),
        "y": number_axis("nats", "nats per word"),
        "color": {"field": "loss", "type": "nominal", "title": None, "scale": kinds},
        "tooltip": tooltip("loss:N", "nats:Q", "epoch:Q", "update:N", "minutes:Q"),
    }
    named = curve.architecture and curve.architecture != name
    shown = f"{name} ({curve.architecture})" if named else name
    note = ""
    if curve.last_loss is not None:
        note = f"Held out at the end: {curve.last_loss:.3f} nats per word."
    return Chart(f"learning-{number}", shown, note, spec)
