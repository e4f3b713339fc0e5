"""Options and arguments of a command, made from the parameters of its function and the fields of data classes.

Name, type, limits, choices and default are those of the field; the help is from the docstring of its class.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import os
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

import click

from moses_bridge.base.config import (
    AtLeast,
    Limit,
    choices,
    default_of,
    from_mapping,
    load_toml,
    unwrapped,
    with_options,
)
from moses_bridge.base.config_text import meanings
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.machine import n_processors
from moses_bridge.base.textio import without_link

Kind = TypeVar("Kind")
DEFAULT_NOTE = "[default:"
PRINT_CONFIG = "--print-config"


class OutputPath(click.Path):
    """A file or directory written by a command; every other `click.Path` is read. A link is followed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; of a link, what it names."""
        return without_link(Path(os.fsdecode(super().convert(value, param, ctx))))


class LogPath(OutputPath):
    """A file to which several commands may append at the same time."""


# Kinds of paths. A missing directory, or one without a file, is reported by the code reading it.
InputFile = Annotated[Path, click.Path(exists=True, dir_okay=False, path_type=Path)]
FileOrStdin = Annotated[
    Path, click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
]
OutputFile = Annotated[Path, OutputPath(dir_okay=False, path_type=Path)]
FileOrStdout = Annotated[Path, OutputPath(dir_okay=False, allow_dash=True, path_type=Path)]
LogFile = Annotated[Path, LogPath(dir_okay=False, allow_dash=True, path_type=Path)]
OutputDirectory = Annotated[Path, OutputPath(file_okay=False, path_type=Path)]
Directory = Annotated[Path, click.Path(file_okay=False, path_type=Path)]  # it may be missing
ExistingDirectory = Annotated[Path, click.Path(exists=True, file_okay=False, path_type=Path)]
FileOrDirectory = Annotated[Path, click.Path(exists=True, path_type=Path)]
Prefix = Annotated[Path, click.Path(path_type=Path)]  # prefix of the names of files
Natural = Annotated[int, AtLeast(0)]
Positive = Annotated[int, AtLeast(1)]
Jobs = Annotated[Positive, "Number of processes or threads.  [default: one per processor]"]
N_JOBS = n_processors()
STANDARD_STREAM = Path("-")


@dataclass(frozen=True)
class OptionForm:
    """The form of an option, for the `Annotated` type of a field, where name and type do not suffice.

    Attributes:
        names: names of the option; without any it is "--" and the name of the field.
        key: key of the settings set by the option, like "loop.max_minutes".
    """

    names: tuple[str, ...] = ()
    key: str = ""
    metavar: str | None = None
    is_argument: bool = False


ARGUMENT = OptionForm(is_argument=True)


def option(*names: str, key: str = "", metavar: str | None = None) -> OptionForm:
    """The `OptionForm` with these attributes."""
    return OptionForm(names, key, metavar)


@dataclass(frozen=True, kw_only=True)
class ConfigOptions:
    """A file of settings; a subclass with a method `settings` also has the flag --print-config.

    Attributes:
        config: File of settings in TOML; an unknown key is an error.
    """

    config: FileOrStdin | None = None

    def settings_of(self, kind: type[Kind], defaults: Kind | None = None) -> Kind:
        """The settings of the file, overridden by options with keys; errors as of `from_mapping`."""
        return with_options(
            from_mapping(kind, self._table, str(self.config), defaults), keys_set_by(self)
        )

    @cached_property
    def _table(self) -> dict[str, Any]:
        """What the file says, read once: it may be a pipe."""
        return {} if self.config is None else load_toml(self.config)


@dataclass(frozen=True, kw_only=True)
class JobsOptions:
    """The number of processes or threads of a command.

    Attributes:
        jobs: Number of processes or threads. [default: one per processor]
    """

    jobs: Positive = N_JOBS


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The Ray cluster of a command.

    Attributes:
        address: Run on a Ray cluster: HOST:PORT of its head, auto, or local to start one on this machine.
            Needs the extra cluster.
        workers: Number of workers on the cluster. [default: one per processor, or per GPU, of the cluster]
    """

    address: Annotated[str | None, option("--ray", metavar="ADDRESS")] = None
    workers: Positive | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.address is None:
            raise ConfigError(
                "--workers are those of a cluster: name one with --ray, or use --jobs"
            )


class PrintConfig(click.Option):
    """The flag --print-config; the method `settings` of the data class of options gives the text."""

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        super().__init__(
            [PRINT_CONFIG],
            is_flag=True,
            expose_value=False,
            help="Print all settings as TOML, with their meanings, and exit.",
        )


def parameters_of(function: Callable[..., None]) -> Iterator[click.Parameter]:
    """The options and arguments of a command: its parameters, or the fields of those that are data classes.

    The help of a parameter is a text in its `Annotated` type.

    Raises:
        TypeError: an option has no help.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if dataclasses.is_dataclass(hints[name]):
            yield from _parameters_of_class(hints[name])
        else:
            is_required = parameter.default is inspect.Parameter.empty
            default = dataclasses.MISSING if is_required else parameter.default
            texts = [note for note in unwrapped(hints[name])[1] if isinstance(note, str)]
            yield _parameter(name, hints[name], default, "".join(texts))


def arguments_of(function: Callable[..., None], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a command's function, by parameter, from values of options; see `parameters_of`."""
    kinds = typing.get_type_hints(function)
    return {
        name: instance_of(kinds[name], values)
        if dataclasses.is_dataclass(kinds[name])
        else values[name]
        for name in inspect.signature(function).parameters
    }


def _parameters_of_class(kind: type[Any]) -> Iterator[click.Parameter]:
    """The parameters of a data class, own fields before inherited ones."""
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    texts = meanings(kind)
    own_first = [name for owner in kind.__mro__ for name in inspect.get_annotations(owner)]
    for name in dict.fromkeys(own_first):
        if name in fields:
            default = default_of(fields[name])
            yield _parameter(name, hints[name], default, texts[name], "config" in fields)
    if hasattr(kind, "settings"):
        yield PrintConfig(kind)


def instance_of(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """An instance of a data class with the values of its fields; other values are ignored."""
    names = [field.name for field in dataclasses.fields(typing.cast(Any, kind))]
    return kind(**{name: values[name] for name in names})


def keys_set_by(options: Any) -> dict[str, Any]:
    """The keys of settings set by options, with their values; None if the option is not given."""
    hints = typing.get_type_hints(type(options), include_extras=True)
    values = {
        form.key: getattr(options, name)
        for name, hint in hints.items()
        for form in unwrapped(hint)[1]
        if isinstance(form, OptionForm) and form.key
    }
    return {key: None if value is False or value == () else value for key, value in values.items()}


def _parameter(
    name: str, hint: Any, default: Any, text: str, has_config: bool = False
) -> click.Parameter:
    kind, notes = unwrapped(hint)
    form = next((note for note in notes if isinstance(note, OptionForm)), OptionForm())
    is_repeated = typing.get_origin(kind) is tuple and typing.get_args(kind)[-1] is Ellipsis
    if is_repeated:
        kind, inner = unwrapped(typing.get_args(kind)[0])
        notes = [*notes, *inner]
    is_required = default is dataclasses.MISSING
    given: dict[str, Any] = {"required": is_required, "metavar": form.metavar}
    if kind is not bool:
        given["type"] = _click_type(kind, notes)
    if not (is_required or default is None or default == ()):
        given["default"] = str(default) if isinstance(default, Path) else default
    if form.is_argument:
        return click.Argument([name], nargs=-1 if is_repeated else 1, **given)
    if not text:
        raise TypeError(f"the option {name} has no help")
    flag = name.replace("_", "-")
    names = form.names or (f"--{flag}/--no-{flag}" if default is True else f"--{flag}",)
    return click.Option(
        [*names, name],
        multiple=is_repeated,
        is_flag=kind is bool or None,
        show_default=default is not False and default != "" and DEFAULT_NOTE not in text,
        help=_help(text, form.key if has_config else ""),
        **given,
    )


def _click_type(kind: Any, notes: list[Any]) -> Any:
    """The type of an option: a type of click, a choice, a range, types of several values, or a plain type."""
    for note in notes:
        if isinstance(note, click.ParamType):
            return note
    if choices(kind):
        return click.Choice(choices(kind))
    if typing.get_origin(kind) is tuple:
        return tuple(_click_type(*unwrapped(member)) for member in typing.get_args(kind))
    bounds: dict[str, Any] = {}
    for limit in (note for note in notes if isinstance(note, Limit)):
        if limit.holds is operator.ge:
            bounds["min"] = limit.bound
        else:
            bounds |= {"max": limit.bound, "max_open": limit.holds is operator.lt}
    if bounds:
        return (click.IntRange if kind is int else click.FloatRange)(**bounds)
    return kind


def _help(text: str, key: str) -> str:
    """A meaning as help: with the key set by the option, and two blanks before its default."""
    text, note, default = text.partition(DEFAULT_NOTE)
    text = text.rstrip()
    if key:
        text = f"{text.removesuffix('.')}; sets the key {key}."
    return f"{text}  {note}{default}" if note else text
