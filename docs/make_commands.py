"""Write docs/commands.md: every command with its options, as click has them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click

import moses_bridge.cli
import rescorer.cli
import tuning.cli
from moses_bridge.base.command import HELP_NAMES, CommandGroup

PAGE = Path(__file__).with_name("commands.md")
INTRODUCTION = """\
# Commands

This page is made by `make commands` from the commands themselves; a test compares the two. `COMMAND --help`,
or `-h`, prints the same. `python -m rescorer`, `python -m moses_bridge` and `python -m tuning` are the three
programs, too.

Between the program and its verb there may be `-q` (`--quiet`), which shows no progress, and `-v`
(`--verbose`), which prints the version, the machine, time and memory, and the traceback of an error:
`rescorer -v score ...`.

An argument is what a command works on, an option everything else. Options have the same name for the same
thing everywhere:

| option | what it is |
|---|---|
| `--source`, `--target`, `--reference` | texts, one sentence a line |
| `--source-language`, `--target-language` | codes of languages |
| `--out` | what is written; `--ini-out` and `--scores-out` are written besides |
| `--config`, `--print-config` | a [file of settings](settings.md), and the settings that would be used |
| `--init-weights`, `--weights` | where a search for weights starts, and weights that replace those of the ini |
| `--model`, `--table`, `--ini`, `--links` | a model directory, a phrase table, a moses.ini, word links |
| `-n`, `--nbest-size` | how many results to print, and how many translations an n-best list has |
| `--resume` | continue what was interrupted |
| `--jobs`, `--device`, `--precision` | what it is computed with |
| `--seed` | of the random numbers |

Names of Moses are kept where they are Moses's: `--stack`, `--cube-pruning-pop-limit` and `--num-scores`, and
`--features` and `--scores` for the files `features.dat` and `scores.dat`.

The exit status is 0, 1 for an error that you can mend, 2 for a wrong command line, 130 after Ctrl-C.

## Completion in the shell

Put a line for each of the programs into `~/.bashrc` (bash 4.4 or newer):

```text
eval "$(_RESCORER_COMPLETE=bash_source rescorer)"
eval "$(_MOSES_BRIDGE_COMPLETE=bash_source moses-bridge)"
eval "$(_TUNING_COMPLETE=bash_source tuning)"
```

For zsh write `zsh_source` in `~/.zshrc`. For fish put `_RESCORER_COMPLETE=fish_source rescorer | source` into
`~/.config/fish/completions/rescorer.fish`, and likewise for the other two. Then Tab completes commands,
options, files and the values of options, like the names of `--arch`.
"""
PROGRAMS = {
    "moses-bridge": moses_bridge.cli.main,
    "rescorer": rescorer.cli.main,
    "tuning": tuning.cli.main,
}
LAID_OUT = "\b"  # click's mark of a paragraph whose lines stay as they are
EXAMPLE = "Example:"
VALUE = re.compile(r"^(?:-[\w-]+(?:, | / | |$))+")  # the names before it


def page() -> str:
    """The text of docs/commands.md."""
    return "\n".join([INTRODUCTION, *(_of_program(*each) for each in PROGRAMS.items())])


def _of_program(program: str, group: CommandGroup) -> str:
    names = HELP_NAMES["help_option_names"]  # click keeps the first ones that it sees
    context = click.Context(group, info_name=program, help_option_names=names)
    parts = [f"## {program}\n\n{_help_text(group)}\n"]
    commands = [*group.all_commands().values()]
    for section, members in groupby(commands, lambda command: str(getattr(command, "section", ""))):
        first = [(str(each.name), _first(each)) for each in members]
        lines = [
            f"- [`{name}`](#{program}-{name.replace(' ', '-')}): {text}" for name, text in first
        ]
        parts.append(f"{section}:\n\n" + "\n".join(lines) + "\n")
    return "\n".join([*parts, *(_of_command(command, context) for command in commands)])


def _first(command: click.Command) -> str:
    """The first sentence of a command's help."""
    return command.get_short_help_str(limit=200)


def _of_command(command: click.Command, parent: click.Context) -> str:
    context = click.Context(command, parent=parent, info_name=command.name)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    options = "\n".join(_options(command, context))
    title = f"### {parent.info_name} {command.name}"
    return f"{title}\n\n```text\n{usage}\n```\n\n{_help_text(command)}\n\n{options}"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """The options of a command: the names as a heading that the search of the site finds, value, meaning."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        is_shown = isinstance(parameter, click.Option) and "--help" not in parameter.opts
        if is_shown and record is not None:
            names, meaning = record
            first, *others = [word.strip(",") for word in names.split() if word.startswith("-")]
            named = [f"{context.command_path} {first}", *others]
            value = "".join(f"`{word}` " for word in [VALUE.sub("", names)] if word)
            text = value + " ".join(_escaped(meaning).split())
            yield f"#### {', '.join(f'`{name}`' for name in named)}\n\n{text}\n"


def _help_text(command: click.Command) -> str:
    """The help of a command: its paragraphs, and its example as a block."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(map(_paragraph, paragraphs))


def _paragraph(text: str) -> str:
    content = text.removeprefix(LAID_OUT).strip()
    if not content.startswith(EXAMPLE):
        return _escaped(" ".join(content.split()))
    example = content.removeprefix(EXAMPLE).replace("\\\n", " ")
    return f"```text\n{' '.join(example.split())}\n```"


def _escaped(text: str) -> str:
    """Text in which, outside of code, nothing is taken for HTML, emphasis or a link."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([<*\[])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
