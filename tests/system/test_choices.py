"""What an option of a command can be, against the types of the settings and functions that it goes to."""

from __future__ import annotations

from typing import Any, get_args

import click
import pytest
from rescorer.tables.report import ColumnFormat

import moses_bridge.cli
import rescorer.cli
import tuning.cli
from moses_bridge.base.choices import DecoderKind, Origin, Smoothing
from rescorer.contract.batch import Side
from rescorer.contract.compute import Device, Precision
from rescorer.models.controls import Control
from rescorer.models.ensemble import Mean
from rescorer.views.generated_phrases import OutputFormat
from rescorer.views.map_points import Kind
from rescorer.views.maps import Colour
from tuning.optimisers.by_name import OptimizerName

GROUPS = {
    "moses-bridge": moses_bridge.cli.main,
    "rescorer": rescorer.cli.main,
    "tuning": tuning.cli.main,
}
# By the parameter of the command's function.
LITERALS: dict[str, Any] = {
    "origin": Origin,
    "smoothing": Smoothing,
    "decoder": DecoderKind,
    "device": Device,
    "precision": Precision,
    "mean": Mean,
    "control": Control,
    "column_format": ColumnFormat,
    "side": Side,
    "output": OutputFormat,
    "form": OutputFormat,
    "kinds": Kind,
    "colour": Colour,
    "optimizer": OptimizerName,
}
CHOICES = [
    (program, command, parameter.name, parameter.type)
    for program, group in GROUPS.items()
    for command, of_command in group.commands.items()
    for parameter in of_command.params
    if isinstance(parameter.type, click.Choice)
]


@pytest.mark.parametrize(
    ("program", "command", "name", "choice"), CHOICES, ids=lambda value: str(value)[:20]
)
def test_an_option_can_be_what_its_type_names(
    program: str, command: str, name: str, choice: click.Choice[str]
) -> None:
    expected = get_args(LITERALS[name])
    if (program, command, name) == ("tuning", "evaluate", "form"):
        expected = tuning.cli.FORMATS
    assert tuple(choice.choices) == expected
