"""docs/commands.md, and what is the same in all commands: short lines in lists, one name for one thing."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import moses_bridge.cli
import rescorer.cli
import tuning.cli
from moses_bridge.base.options import OutputPath

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROGRAMS = {
    "moses-bridge": moses_bridge.cli.main,
    "rescorer": rescorer.cli.main,
    "tuning": tuning.cli.main,
}
# A directory, or with its name in the output; the kind of a control, or the system that is one.
SEVERAL_KINDS = {"--model", "--control", "--metric"}


@pytest.fixture(scope="module")
def page() -> str:
    return str(runpy.run_path(str(DOCS / "make_commands.py"))["page"]())


def commands() -> Iterator[tuple[str, click.Command]]:
    for program, group in PROGRAMS.items():
        for name, command in group.all_commands().items():
            yield f"{program} {name}", command


def test_the_page_is_up_to_date(page: str) -> None:
    assert page == (DOCS / "commands.md").read_text(), "run `make commands`"


def test_the_page_has_every_option_of_every_command(page: str) -> None:
    sections = dict(part.split("\n", 1) for part in page.split("\n### ")[1:])
    assert sections.keys() == {name for name, _ in commands()}
    for name, command in commands():
        for option in command.params:
            if isinstance(option, click.Option):
                assert all(
                    f"{each}`" in sections[name]
                    or f"{each} " in sections[name]
                    or f"{each}," in sections[name]
                    for each in option.opts
                ), (name, option.opts)


@pytest.mark.parametrize("program", PROGRAMS)
def test_lists_of_commands_fit_80_columns(program: str) -> None:
    result = CliRunner().invoke(PROGRAMS[program], ["-h"], prog_name=program, terminal_width=80)
    lines = result.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "..." not in result.stdout.split("Options:")[1]
    listed = [line[2:].split("  ")[0] for line in lines if line.startswith("  ")]
    assert set(listed) >= set(PROGRAMS[program].all_commands())


def _kind(option: click.Option) -> str:
    """What an option takes, roughly."""
    if isinstance(option.type, OutputPath):
        return "written"
    if isinstance(option.type, click.Path):
        return "read"
    if isinstance(option.type, click.Choice):
        return "choice"
    return "flag" if option.is_flag else type(option.type).__name__.replace("Range", "ParamType")


def test_an_option_is_the_same_kind_of_thing_in_all_commands() -> None:
    kinds: dict[str, set[str]] = {}
    for _, command in commands():
        for option in command.params:
            if isinstance(option, click.Option):
                for name in option.opts:
                    kinds.setdefault(name, set()).add(_kind(option))
    assert {name for name, found in kinds.items() if len(found) > 1} == SEVERAL_KINDS
    assert kinds["--source"] == kinds["--target"] == kinds["--table"] == {"read"}
    assert kinds["--out"] == kinds["--cache"] == {"written"}


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["moses-bridge", "decode", "--output", "o"], "--out"),
        (["tuning", "optimize", "--init", "i"], "--init-weights"),
        (["rescorer", "align", "--line", "3"], ""),
        (["rescorer", "map", "--colour", "length"], "--color"),
    ],
)
def test_a_wrong_name_of_an_option_suggests_the_right_one(
    arguments: list[str], suggestion: str
) -> None:
    program, *rest = arguments
    result = CliRunner().invoke(PROGRAMS[program], rest, prog_name=program)
    assert result.exit_code == 2
    assert f"No such option '{arguments[2]}'" in result.stderr and suggestion in result.stderr


@pytest.mark.parametrize(
    ("program", "words", "expected"),
    [
        ("rescorer", "rescorer ex", {"expected-bleu"}),
        ("rescorer", "rescorer train table --arch rnn", {"rnn_lm", "rnnsearch"}),
        ("moses-bridge", "moses-bridge decode --weig", {"--weights"}),
    ],
)
def test_completion_as_the_page_sets_it_up(program: str, words: str, expected: set[str]) -> None:
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    assert f'"$({variable}=bash_source {program})"' in (DOCS / "commands.md").read_text()
    environment = {
        variable: "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    result = CliRunner().invoke(PROGRAMS[program], [], prog_name=program, env=environment)
    assert {line.split(",")[1] for line in result.stdout.split()} == expected


@pytest.mark.parametrize("program", ["tuning", "rescorer"])
def test_the_old_name_of_decode_says_the_new_one(program: str) -> None:
    arguments = ["translate", "x", "--source", "y"]
    result = CliRunner().invoke(PROGRAMS[program], arguments, prog_name=program)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"{program}: error: `{program} translate` is called `{program} decode`; for plain text: "
        "`moses-bridge translate`\n"
    )
