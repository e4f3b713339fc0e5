"""What an option of a command can be, against the types of the settings and functions that it goes to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import click
import pytest
from click.testing import CliRunner

import moses_bridge.cli
import rescorer.cli
import tuning.cli
from moses_bridge.base.choices import (
    Aligner,
    Combination,
    DecoderKind,
    LexiconForm,
    ListFormat,
    Origin,
    Smoothing,
    Tags,
    UnknownPhrases,
)
from rescorer.contract.architectures import ARCHITECTURES
from rescorer.contract.choices import (
    BadHypotheses,
    Colour,
    ColumnFormat,
    Control,
    Device,
    LineFormat,
    MapKind,
    Mean,
    OutputFormat,
    PairReading,
    PrecisionOrFastest,
    Reading,
    Side,
    TextCase,
)
from tuning.compare.target_text import TokenizerName
from tuning.experiments.settings import Scale
from tuning.metrics.by_name import MbrMetricName, MetricName
from tuning.optimisers.by_name import OptimizerName
from tuning.report.forms import OutputFormat as ReportFormat

GROUPS = {
    "moses-bridge": moses_bridge.cli.main,
    "rescorer": rescorer.cli.main,
    "tuning": tuning.cli.main,
}
# By the parameter of the command's function.
LITERALS: dict[str, Any] = {
    "origin": Origin,
    "how": Combination,
    "tags": Tags,
    "unknown": UnknownPhrases,
    "smoothing": Smoothing,
    "decoder": DecoderKind,
    "reading": Reading,
    "case": TextCase,
    "device": Device,
    "precision": PrecisionOrFastest,
    "mean": Mean,
    "control": Control,
    "column_format": ColumnFormat,
    "side": Side,
    "form": OutputFormat,
    "format": LineFormat,
    "kind": Aligner,
    "kinds": MapKind,
    "colour": Colour,
    "optimizer": OptimizerName,
    "list_format": ListFormat,
    "bad_hypotheses": BadHypotheses,
    "metric": MetricName,
    "mbr": MbrMetricName,
    "tokenize": TokenizerName,
    "scale": Scale,
}
CHOICES = [
    (program, command, parameter.name, parameter.type)
    for program, group in GROUPS.items()
    for command, of_command in group.all_commands().items()
    for parameter in of_command.params
    if isinstance(parameter.type, click.Choice)
]


@pytest.mark.parametrize(
    ("program", "command", "name", "choice"), CHOICES, ids=lambda value: str(value)[:20]
)
def test_an_option_can_be_what_its_type_names(
    program: str, command: str, name: str, choice: click.Choice[str]
) -> None:
    literal = LITERALS[name]
    if (command, name) in (("evaluate", "form"), ("worth", "form")):
        literal = ReportFormat
    if command == "lexicon":
        literal = LexiconForm
    if name == "reading" and command != "train":
        literal = PairReading
    assert tuple(choice.choices) == get_args(literal)


@pytest.mark.parametrize("package", [moses_bridge.cli, rescorer.cli, tuning.cli])
def test_no_command_writes_out_its_choices(package: ModuleType) -> None:
    """They come from a Literal, so that a new name is one line elsewhere."""
    modules = Path(str(package.__file__)).parent.glob("*.py")
    assert [path.name for path in modules if "click.Choice(" in path.read_text()] == []


def test_an_option_cannot_be_anything_else() -> None:
    result = CliRunner().invoke(rescorer.cli.main, ["score", "t", "--out", "o", "--control", "no"])
    assert result.exit_code == 2
    assert all(repr(name) in result.output for name in get_args(Control))


@pytest.mark.parametrize("package", ["moses_bridge.cli", "rescorer.cli", "tuning.cli"])
def test_listing_the_commands_loads_nothing_slow(package: str) -> None:
    """So that `--help`, and a shell that completes a command, do not wait."""
    slow = ["numba", "numpy", "pandas", "sacrebleu", "scipy", "torch"]
    code = f"import {package}, sys; print(sorted(set({slow}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "[]\n", result.stderr


def test_the_help_of_arch_names_all_architectures() -> None:
    output = CliRunner().invoke(rescorer.cli.main, ["train", "--help"]).output
    assert f"--arch [{'|'.join(ARCHITECTURES)}|MODULE:NAME]" in output
    assert "package.module:NAME for one of your own" in " ".join(output.split())
