"""The common parts of the three commands: exit codes, sections, version, settings and processes."""

from __future__ import annotations

import contextlib
import copy
import errno
import inspect
import itertools
import multiprocessing
import os
import resource
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import click
from click.core import ParameterSource

from moses_bridge.base.config_text import commented_toml
from moses_bridge.base.errors import Extra, UserError, extra_named
from moses_bridge.base.machine import machine
from moses_bridge.base.options import (
    PRINT_CONFIG,
    LogPath,
    OutputPath,
    PrintConfig,
    arguments_of,
    instance_of,
    parameters_of,
)
from moses_bridge.base.overwriting import protected, refuse_overwriting
from moses_bridge.base.streams import mend_streams
from moses_bridge.base.textio import FULL, is_stream, remove_unfinished

FAILED = 1
INTERRUPTED = 130
VERSION = click.version_option(package_name="rescorer", message="%(prog)s %(version)s")


def _be_quiet(ctx: click.Context, parameter: click.Parameter, is_quiet: bool) -> None:
    """Show progress or not; the import is too slow for `--help`."""
    from moses_bridge.base.progress import quiet

    quiet(is_quiet)


def _be_verbose(ctx: click.Context, parameter: click.Parameter, is_verbose: bool) -> None:
    ctx.meta[IS_VERBOSE] = is_verbose


# Of the three groups, besides --help.
HELP_NAMES = {"help_option_names": ["-h", "--help"]}
IS_VERBOSE = "moses_bridge.is_verbose"
QUIET = click.option(
    "-q", "--quiet", is_flag=True, expose_value=False, callback=_be_quiet, help="Show no progress."
)
VERBOSE = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_be_verbose,
    help="Print version, machine, time and memory, and the traceback of an error.",
)
OUT_OF_MEMORY = (
    "Unable to allocate",
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "annot allocate memory",
    "failed to map segment",
    "can't start new thread",
)


def command_line() -> str:
    """The command line of this process, quoted for a shell; `python -m tuning` is `tuning`."""
    program = Path(sys.argv[0])
    is_module = program.name == "__main__.py"
    name = program.parent.name.replace("_", "-") if is_module else program.name
    return shlex.join([name, *sys.argv[1:]])


class Command(click.Command):
    """A command refusing to overwrite its inputs; it may have the flag --print-config.

    Attributes:
        section: title below which the help of its group lists it.
    """

    section = "Commands"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; with --print-config, print the settings instead."""
        for flag in self.params:
            if isinstance(flag, PrintConfig) and PRINT_CONFIG in args:
                click.Command.parse_args(_without_required(self), ctx, args)
                settings = instance_of(flag.kind, ctx.params).settings()
                click.echo(commented_toml(settings), nl=False)
                ctx.exit()
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, unless one of its outputs is one of its inputs.

        Raises:
            ConfigError: an output is an input.
            UserError: there is not enough memory; the error names the request and the options to lower.
        """
        from moses_bridge.base.lock import held_by_command  # slow for `--help`

        outputs, inputs = self.paths(ctx.params)
        refuse_overwriting(outputs, inputs)
        try:
            with protected(inputs), held_by_command(self.files_to_write(ctx.params)):
                return super().invoke(ctx)
        except (MemoryError, RuntimeError, ImportError) as error:
            if not _is_out_of_memory(error):
                raise
            raise UserError(_no_memory(ctx, error)) from error

    def paths(self, values: Mapping[str, Any]) -> tuple[list[Path], list[Path]]:
        """The paths to write and those to read, of the values by parameter."""
        outputs, inputs = list[Path](), list[Path]()
        for parameter in self.params:
            for kind, value in _values_of(parameter, values.get(parameter.name or "")):
                if isinstance(kind, click.Path):
                    (outputs if isinstance(kind, OutputPath) else inputs).append(Path(value))
        return outputs, inputs

    def files_to_write(self, values: Mapping[str, Any]) -> Iterator[Path]:
        """The files to write that no other command may write at the same time."""
        for parameter in self.params:
            for kind, value in _values_of(parameter, values.get(parameter.name or "")):
                if not isinstance(kind, OutputPath) or isinstance(kind, LogPath):
                    continue
                if not kind.dir_okay and not is_stream(value):
                    yield Path(value)


def _values_of(
    parameter: click.Parameter, value: Any
) -> Iterator[tuple[click.types.ParamType[Any], Any]]:
    if value is None:
        return
    for item in value if parameter.multiple or parameter.nargs == -1 else [value]:
        if isinstance(parameter.type, click.Tuple):
            yield from zip(parameter.type.types, item, strict=True)
        else:
            yield parameter.type, item


def _is_out_of_memory(error: Exception) -> bool:
    """Whether an error means lack of memory; on a CPU, PyTorch has no class for it."""
    message = str(error)
    return isinstance(error, MemoryError) or any(words in message for words in OUT_OF_MEMORY)


def _no_memory(ctx: click.Context, error: Exception) -> str:
    """A message of one line: the failed request, and the numbers on the command line to lower."""
    lines = str(error).strip().split("\n")
    request = next(
        (line for line in lines if any(words in line for words in OUT_OF_MEMORY)), lines[0]
    )
    given = [
        (ctx.params[parameter.name], parameter.opts[-1])
        for parameter in ctx.command.params
        if parameter.name is not None
        and type(ctx.params.get(parameter.name)) is int
        and ctx.params[parameter.name] > 1
        and ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]
    sizes = [f"{option} {value}" for value, option in sorted(given, reverse=True)]
    sizes += [f"the sizes in --config {ctx.params['config']}"] if ctx.params.get("config") else []
    advice = ", ".join(sizes) or "the sizes in its settings and in the directories that it reads"
    return f"not enough memory{f' ({request})' if request else ''}: lower {advice}, or use a larger machine"


def _without_required(command: click.Command) -> click.Command:
    relaxed = copy.copy(command)
    relaxed.params = [copy.copy(parameter) for parameter in command.params]
    for parameter in relaxed.params:
        parameter.required = False
    return relaxed


def command(function: Callable[..., None]) -> Command:
    """Make a command of a `CommandGroup`, with the function's name, and its docstring as help.

    Its options and arguments are those of `parameters_of`. The first sentence of the docstring is also its line
    in the help of the group: 59 characters at most.
    """

    def run(**values: Any) -> None:
        function(**arguments_of(function, values))

    name = function.__name__.removesuffix("_command").replace("_", "-")
    return Command(
        name, params=[*parameters_of(function)], callback=run, help=inspect.getdoc(function)
    )


def program(function: Callable[[], None]) -> CommandGroup:
    """Make the group of a program's commands, with --version, --quiet, --verbose, -h and --help."""
    options = VERSION(QUIET(VERBOSE(function)))
    return click.group(cls=CommandGroup, context_settings=HELP_NAMES)(options)


class CommandGroup(click.Group):
    """A click group listing its commands in sections and reporting errors in one line, not a traceback.

    The exit status is 1 for a fault the user can mend (a UserError, or one of the system: no space, no
    permission), 130 for an interrupt, and 2, from click, for a wrong command line. A closed pipe (`| head`)
    ends the command silently with status 1. SIGTERM and SIGHUP end it, as by default, but leave no unfinished
    files and no process that it started.

    Attributes:
        extra: the extra to name for a missing module of several extras.
        renamed: new names of commands whose old ones are of moses-bridge alone, by the old one.
        sections: names of commands by the module that has them, by the title below which the help lists them.
    """

    command_class = Command
    extra: Extra = "build"
    renamed: Mapping[str, str] = {}
    sections: Mapping[str, Mapping[str, tuple[str, ...]]] = {}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, from its module if it was not asked for before; None if there is none."""
        for title, modules in self.sections.items():
            for module, names in modules.items():
                if cmd_name in names and cmd_name not in self.commands:
                    members = vars(import_module(module)).values()
                    found = next(each for each in members if getattr(each, "name", "") == cmd_name)
                    found.section = title
                    self.add_command(found)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first words: one of two words, like "run improve", before one of one word."""
        if args[0] in self.renamed:
            new = f"{ctx.info_name} {self.renamed[args[0]]}"
            raise UserError(
                f"`{ctx.info_name} {args[0]}` is called `{new}`; for plain text: `moses-bridge {args[0]}`"
            )
        first, two = args[0], " ".join(args[:2])
        names = self.list_commands(ctx)
        if two in names:
            return super().resolve_command(ctx, [two, *args[2:]])
        seconds = [name.removeprefix(f"{first} ") for name in names if name.startswith(f"{first} ")]
        if seconds and first not in names:  # for its help
            own = click.Group(first, context_settings=HELP_NAMES)
            for each in seconds:
                if command := self.get_command(ctx, f"{first} {each}"):
                    own.add_command(command, each)
            return first, own, args[1:]
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands: those of the sections, then those added by themselves."""
        modules = [module for each in self.sections.values() for module in each.values()]
        return list(dict.fromkeys([*itertools.chain(*modules), *self.commands]))

    def all_commands(self) -> dict[str, click.Command]:
        """All commands by name, in the order of the help."""
        context = click.Context(self)
        named = {name: self.get_command(context, name) for name in self.list_commands(context)}
        return {name: command for name, command in named.items() if command}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections: each command with the first sentence of its help."""
        commands = self.all_commands()
        longest = max(map(len, commands), default=0)
        limit = formatter.width - 6 - longest
        rows: dict[str, list[tuple[str, str]]] = {}
        for name, command in commands.items():
            title = getattr(command, "section", Command.section)
            row = (name.ljust(longest), command.get_short_help_str(limit))
            rows.setdefault(title, []).append(row)
        for title in rows:
            with formatter.section(title):
                formatter.write_dl(rows[title])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the group's own options."""
        try:
            return super().parse_args(ctx, args)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; see the class."""
        mend_streams()
        is_verbose = ctx.meta.get(IS_VERBOSE, False)
        try:
            measured = _measured(ctx) if is_verbose else contextlib.nullcontext()
            with _tidy_when_ended(), measured, extra_named(self.extra):
                return super().invoke(ctx)
        except UserError as error:
            message = str(error)
        except BrokenPipeError:
            _close_output()
            sys.exit(FAILED)
        except OSError as error:
            message = f"{error}{_advice(error)}"
            _close_output()
        except KeyboardInterrupt:
            click.echo(f"{ctx.info_name}: interrupted{self._continuation(ctx)}", err=True)
            sys.exit(INTERRUPTED)
        click.echo(f"{ctx.info_name}: error: {message}", err=True)
        sys.exit(FAILED)

    def _continuation(self, ctx: click.Context) -> str:
        command = self.get_command(ctx, str(ctx.invoked_subcommand))
        options = [name for each in command.params for name in each.opts] if command else []
        if "--resume" not in options:
            return ""
        words = shlex.split(command_line())
        kept = [word for word in words if word not in ("--resume", "--overwrite")]
        return f"; continue with: {shlex.join([*kept, '--resume'])}"


@contextlib.contextmanager
def _measured(ctx: click.Context) -> Iterator[None]:
    """Print version, machine, time, memory and the traceback of an error on standard error."""
    from moses_bridge.base.progress import duration
    from moses_bridge.base.provenance import own_version

    click.echo(f"{ctx.info_name} {own_version()}, {machine()}", err=True)
    start = time.monotonic()
    try:
        yield
    except (UserError, OSError):
        traceback.print_exc()
        raise
    finally:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        click.echo(
            f"{ctx.info_name}: {duration(time.monotonic() - start)}, "
            f"{duration(usage.ru_utime + usage.ru_stime)} of processor time, "
            f"{usage.ru_maxrss / 1024:,.0f} MiB of memory at most",
            err=True,
        )


def _advice(error: OSError) -> str:
    """Advice for a lack of room; "" for other errors."""
    if error.errno == errno.EFBIG:
        return ". Raise the limit of file sizes (ulimit -f), or name another place"
    if error.errno in FULL and error.errno != errno.EIO:
        return (
            ". Make room there, or name another place; where a command has --resume, it continues"
        )
    return ""


@contextlib.contextmanager
def _tidy_when_ended() -> Iterator[None]:
    """End other processes and remove unfinished files when a signal ends this one, unless it is a worker."""
    # Slow imports for `--help`.
    from moses_bridge.base.programs import end_programs, end_workers, handled

    owner = os.getpid()

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner:
            end_programs()  # first: they would write on, into new folders
            end_workers(multiprocessing.active_children())
            remove_unfinished()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner:
            end_programs()  # a thread may wait for one
        raise KeyboardInterrupt

    own = {signal.SIGTERM: end, signal.SIGHUP: end, signal.SIGINT: interrupt}
    usual = (signal.SIG_DFL, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        for number, handler in own.items():
            if signal.getsignal(number) in usual:
                stack.enter_context(handled([number], handler))
        yield


def _close_output() -> None:
    """Drop unwritable output; otherwise Python would try again at exit and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
