"""Options made from the parameters of a function and the fields of data classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import pytest
from click.testing import CliRunner

from moses_bridge.base.command import command
from moses_bridge.base.config import AtLeast, AtMost, Below
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.options import (
    ARGUMENT,
    STANDARD_STREAM,
    ClusterOptions,
    ConfigOptions,
    FileOrStdin,
    FileOrStdout,
    InputFile,
    Positive,
    keys_set_by,
    option,
    parameters_of,
)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What several commands have.

    Attributes:
        seed: Seed of the draw.
        resume: Go on.
    """

    seed: int = 1
    resume: bool = False


@dataclass(frozen=True, kw_only=True)
class Options(Shared):
    """Options of one command.

    Attributes:
        tables: Tables to read.
        out: File to write; this meaning is so long
            that it needs two lines. [default: standard
            output]
        how: Which way.
        optimizer: Which algorithm.
        number: How many.
        share: How much.
        models: Model; may be given
            several times.
        detokenize: Join tokens.
        pair: Two texts.
        name: Name in the log.
    """

    tables: Annotated[tuple[FileOrStdin, ...], ARGUMENT]
    out: FileOrStdout = Path("-")
    how: Literal["best", "all"]
    optimizer: Literal["mert"] | Literal["pro"] | None = None
    number: Annotated[Positive, option("-n", "--number")] = 10
    share: Annotated[float, AtLeast(0), Below(1)] | None = None
    models: Annotated[tuple[str, ...], option("--model", metavar="NAME=DIR")] = ()
    detokenize: bool = True
    pair: tuple[InputFile, InputFile] | None = None
    name: str = ""


def found(function: Callable[..., None]) -> dict[str, click.Parameter]:
    return {str(parameter.name): parameter for parameter in parameters_of(function)}


def of_class(options: Options) -> None: ...


def help_of(function: Callable[..., None], *arguments: str) -> str:
    result = CliRunner().invoke(command(function), [*arguments, "--help"], terminal_width=200)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_own_fields_come_before_inherited_ones() -> None:
    assert list(found(of_class)) == [
        *("tables", "out", "how", "optimizer", "number", "share", "models", "detokenize", "pair"),
        *("name", "seed", "resume"),
    ]


def test_the_help_has_names_choices_ranges_and_defaults() -> None:
    text = help_of(of_class)
    for expected in (
        "Usage: of-class [OPTIONS] TABLES...",
        "--out FILE File to write; this meaning is so long that it needs two lines. [default: standard output]",
        "--how [best|all] Which way. [required]",
        "--optimizer [mert|pro] Which algorithm.",
        "-n, --number INTEGER RANGE How many. [default: 10; x>=1]",
        "--share FLOAT RANGE How much. [0<=x<1]",
        "--model NAME=DIR Model; may be given several times.",
        "--detokenize / --no-detokenize Join tokens. [default: detokenize]",
        "--pair <FILE FILE>... Two texts.",
        "--name TEXT Name in the log.",
        "--seed INTEGER Seed of the draw. [default: 1]",
        "--resume Go on.",
    ):
        assert expected in text, text


def test_two_blanks_stand_before_a_default() -> None:
    (out,) = (each for each in parameters_of(of_class) if each.name == "out")
    assert isinstance(out, click.Option) and "lines.  [default: standard output]" in str(out.help)


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ([], {}),
        (["-n", "3", "--share", "0.5"], {"number": 3, "share": 0.5}),
        (["--model", "a", "--model", "b"], {"models": ("a", "b")}),
        (["--no-detokenize", "--resume"], {"detokenize": False, "resume": True}),
        (["--pair", "one", "two"], {"pair": (Path("one"), Path("two"))}),
        (["--optimizer", "pro", "--out", "x"], {"optimizer": "pro", "out": Path("x")}),
    ],
)
def test_a_command_gets_its_data_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], changed: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        Path(name).touch()
    given: list[Options] = []

    def run(options: Options) -> None:
        given.append(options)

    result = CliRunner().invoke(command(run), ["one", "-", "--how", "all", *arguments])
    assert result.exit_code == 0, result.output
    assert given == [Options(**{"tables": (Path("one"), Path("-")), "how": "all", **changed})]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--how", "all"], "Missing argument 'TABLES...'"),
        (["-"], "Missing option '--how'"),
        (["-", "--how", "some"], "'some' is not one of 'best', 'all'"),
        (["-", "--how", "all", "-n", "0"], "0 is not in the range x>=1"),
        (["-", "--how", "all", "--share", "1"], "1.0 is not in the range 0<=x<1"),
        (["nowhere", "--how", "all"], "'nowhere' does not exist"),
    ],
)
def test_wrong_command_lines(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(command(of_class), arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def mixed(
    table: Annotated[FileOrStdin, ARGUMENT],
    shared: Shared,
    run_commands: Annotated[bool, "Run them."] = False,
    size: Annotated[int, AtLeast(2), AtMost(5), option("--sizes"), "How large."] = 3,
) -> None:
    click.echo(f"{table} {shared} {run_commands} {size}")


def test_a_parameter_that_is_no_data_class_is_an_option_itself() -> None:
    text = help_of(mixed)
    assert "--run-commands Run them." in text
    assert "--sizes INTEGER RANGE How large. [default: 3; 2<=x<=5]" in text
    result = CliRunner().invoke(command(mixed), ["-", "--sizes", "4", "--seed", "7"])
    assert result.output == "- Shared(seed=7, resume=False) False 4\n"


def without_help(width: int = 3) -> None: ...


def test_an_option_without_help_is_an_error() -> None:
    with pytest.raises(TypeError, match="the option width has no help"):
        list(parameters_of(without_help))


@dataclass(frozen=True, kw_only=True)
class Keys(ConfigOptions):
    """Options that set keys of settings.

    Attributes:
        minutes: How long. [default: no limit]
        left_out: Columns.
        run_commands: Run them.
        other: No key.
    """

    minutes: Annotated[float | None, option(key="loop.max_minutes")] = None
    left_out: Annotated[tuple[str, ...], option(key="left_out")] = ()
    run_commands: Annotated[bool, option(key="run_commands")] = False
    other: int = 3

    def settings(self) -> Shared:
        """Settings."""
        return Shared()


def of_keys(options: Keys) -> None: ...


def test_an_option_that_is_not_given_sets_no_key() -> None:
    none = {"loop.max_minutes": None, "left_out": None, "run_commands": None}
    assert keys_set_by(Keys()) == none
    given = Keys(minutes=0.0, left_out=("a",), run_commands=True)
    assert keys_set_by(given) == {
        "loop.max_minutes": 0.0,
        "left_out": ("a",),
        "run_commands": True,
    }


def test_the_help_names_the_key_that_an_option_sets() -> None:
    text = help_of(of_keys)
    assert "How long; sets the key loop.max_minutes. [default: no limit]" in text
    assert "--run-commands Run them; sets the key run_commands." in text
    assert text.endswith(
        "--config FILE File of settings in TOML; an unknown key is an error. "
        "--print-config Print all settings as TOML, with their meanings, and exit. "
        "--help Show this message and exit."
    )


def test_workers_are_those_of_a_cluster() -> None:
    assert ClusterOptions(address="auto", workers=3).workers == 3
    with pytest.raises(ConfigError, match="name one with --ray, or use --jobs"):
        ClusterOptions(workers=3)


def test_a_file_that_is_not_given_is_standard_input() -> None:
    @command
    def count(text: Annotated[FileOrStdin, ARGUMENT] = STANDARD_STREAM) -> None:
        """Print the path."""
        click.echo(repr(text))

    result = CliRunner().invoke(count, [])
    assert (result.exit_code, result.output) == (0, f"{STANDARD_STREAM!r}\n")
