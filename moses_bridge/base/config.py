"""Strict settings: TOML into frozen dataclasses, where an unknown key is an error."""

from __future__ import annotations

import dataclasses
import difflib
import operator
import re
import reprlib
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import StrPath, open_read

Config = TypeVar("Config")

# Tables and lists inside each other: no file of settings or records has more than ten.
MAX_DEPTH = 100
TOO_DEEP = f"tables and lists nested more than {MAX_DEPTH} deep"
# A key of a hundred parts; Python's reader needs a minute for one of 100,000.
LONG_KEY = re.compile(rb"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){%d}" % MAX_DEPTH)
# Whole numbers beyond these are neither a size nor a seed, and too large for compiled code.
SMALLEST_INT, LARGEST_INT = -(2**63), 2**64 - 1
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 3, 120, 120, 60


class WrongValueError(ConfigError):
    """A value, quoted by `shown_value`, of another type than expected, and the names of its key and file."""

    def __init__(self, where: str, found: str, expected: str) -> None:
        self.where = where
        self.found = found
        self.expected = expected
        super().__init__(f"{where}: found {found}, expected {expected}")


@dataclass(frozen=True)
class Limit:
    """A limit of a setting's values, part of its type: Annotated[int, AtLeast(1)].

    Attributes:
        holds: whether a value is within the bound; NaN never is.
        demand: its wording in an error message.
        words: its wording in a list of settings.
    """

    bound: float
    holds: Callable[[float, float], bool]
    demand: str
    words: str

    def __str__(self) -> str:
        return f"{self.words} {self.bound}"


AtLeast = partial(Limit, holds=operator.ge, demand="the smallest value is", words="at least")
AtMost = partial(Limit, holds=operator.le, demand="the largest value is", words="at most")
Below = partial(Limit, holds=operator.lt, demand="it must be below", words="below")


def load_toml(path: StrPath) -> dict[str, Any]:
    """Read a TOML file; InputError if the file is missing, is not TOML, or is nested too deeply."""
    with open_read(path) as stream:
        data = stream.read()
        if LONG_KEY.search(data):
            raise InputError(path, None, TOO_DEEP, "a TOML file")
        try:
            table = tomllib.loads(data.decode())
        except ValueError as error:
            raise InputError(path, None, str(error), "a TOML file") from error
        except RecursionError as error:
            raise InputError(path, None, TOO_DEEP, "a TOML file") from error
    if is_too_deep(table):
        raise InputError(path, None, TOO_DEEP, "a TOML file")
    return table


def is_too_deep(value: Any) -> bool:
    """Whether lists and tables are nested more than `MAX_DEPTH` deep, too deep for recursive functions."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
        if not inner:
            return False
        level = inner
    return True


def shown_value(value: Any) -> str:
    """A value quoted for a message: short, however large or deep the value is."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return f"a number of {value.bit_length():,} bits" if isinstance(value, int) else "a number"


def from_mapping(
    kind: type[Config], mapping: Mapping[str, Any], where: str, defaults: Config | None = None
) -> Config:
    """Make a dataclass of settings from a mapping; nested tables become nested dataclasses.

    A nested table changes only its own keys in the default of its field. Keys missing in the mapping have the
    values of `defaults`, or else of the dataclass. `where` names the mapping in errors. A dataclass may list
    keys of earlier versions in `former_keys`, each with the text to write instead.

    Raises:
        ConfigError: a key is unknown (the message names the nearest valid one), one without default is
            missing, or a value has the wrong type or is out of its limits.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = dataclasses.fields(typing.cast(Any, kind))
    names = [field.name for field in fields]
    for key in mapping:
        if key not in names:
            former: Mapping[str, str] = getattr(kind, "former_keys", {})
            hint = f"; write {former[key]}" if key in former else _nearest(key, names, hints)
            raise ConfigError(_at(where, f"unknown key {shown_value(key)}{hint}"))
    for field in fields:
        is_required = field.init and default_of(field) is dataclasses.MISSING
        if field.name not in mapping and defaults is None and is_required:
            raise ConfigError(_at(where, f"the key {field.name!r} is missing"))
    values = {
        field.name: _convert(
            hints[field.name],
            mapping[field.name],
            _at(where, field.name),
            default_of(field) if defaults is None else getattr(defaults, field.name),
        )
        for field in fields
        if field.name in mapping
    }
    try:
        if defaults is None:
            return kind(**values)
        return typing.cast(Config, dataclasses.replace(typing.cast(Any, defaults), **values))
    except ConfigError as error:
        raise ConfigError(_at(where, str(error))) from error


def check_limits(settings: Any) -> None:
    """Refuse (ConfigError) a dataclass of settings out of the limits of their types; for __post_init__.

    A limit may be anywhere in a type: Annotated[int, AtLeast(1)] | None, or tuple[Annotated[float, AtLeast(0),
    Below(1)], ...].
    """
    hints = typing.get_type_hints(type(settings), include_extras=True)
    for field in dataclasses.fields(settings):
        for number, limit in _with_limits(hints[field.name], getattr(settings, field.name)):
            if not limit.holds(number, limit.bound):
                raise ConfigError(f"{field.name} is {number}; {limit.demand} {limit.bound}")


class Limited:
    """Base of a dataclass of settings that is refused if a value is out of its limits; see `check_limits`."""

    def __post_init__(self) -> None:
        check_limits(self)


def with_options(config: Config, options: Mapping[str, Any]) -> Config:
    """The settings of a file, overridden by options by key, "loop.max_minutes" in a table; None is not given.

    Raises:
        ConfigError: a value is out of its limits.
    """
    given: dict[str, Any] = {}
    for name, value in options.items():
        if value is not None:
            *tables, key = name.split(".")
            inner = given
            for table in tables:
                inner = inner.setdefault(table, {})
            inner[key] = value
    return from_mapping(type(config), given, "command line", config)


def nearest(name: str, names: Iterable[str], what: str = "keys") -> str:
    """The end of a message about an unknown name: the nearest of the valid `names`, or else all `what`."""
    valid = sorted(names)
    close = difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; the {what} are {', '.join(valid)}"


def _with_limits(hint: Any, value: Any) -> Iterator[tuple[float, Limit]]:
    if typing.get_origin(hint) is Annotated:
        if isinstance(value, int | float):
            yield from ((value, limit) for limit in limits(hint))
        yield from _with_limits(hint.__origin__, value)
    elif _is_union(hint):
        for option in typing.get_args(hint):
            yield from _with_limits(option, value)
    elif typing.get_origin(hint) is tuple and isinstance(value, tuple):
        members = _members(typing.get_args(hint), len(value))
        for member, number in zip(members, value, strict=True):
            yield from _with_limits(member, number)


def limits(hint: Any) -> list[Limit]:
    """The outermost limits of a type: Annotated[int, AtLeast(1)] has one."""
    return [extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Limit)]


def choices(hint: Any) -> list[Any]:
    """The literal values of a type: three for Literal["a", "b"] | Literal["c"], none for int."""
    literals = filter(_is_literal, _options(hint))
    return [choice for literal in literals for choice in typing.get_args(literal)]


def unwrapped(hint: Any) -> tuple[Any, list[Any]]:
    """A type without None and Annotated, and the notes of all Annotated, outermost first."""
    notes: list[Any] = []
    while True:
        if typing.get_origin(hint) is Annotated:
            notes += hint.__metadata__
            hint = hint.__origin__
            continue
        members = typing.get_args(hint) if _is_union(hint) else ()
        inner = [member for member in members if member is not types.NoneType]
        if len(inner) != 1:
            return hint, notes
        (hint,) = inner


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The default of a field of a data class; `dataclasses.MISSING` if it has none."""
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def _nearest(key: str, names: list[str], hints: Mapping[str, Any]) -> str:
    """The likely meaning of an unknown key: the same key of a table, or a similar one."""
    inner = _inner_keys(hints)
    close = inner.get(key) or difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    if not close:
        alike = difflib.get_close_matches(key, inner, n=1, cutoff=0.8)
        close = [name for found in alike for name in inner[found]]
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else nearest(key, names)


def _inner_keys(hints: Mapping[str, Any]) -> dict[str, list[str]]:
    """The keys of nested tables, with their full names: "mert.n_restarts"."""
    inner: dict[str, list[str]] = {}
    for table, hint in hints.items():
        for option in filter(dataclasses.is_dataclass, _options(hint)):
            for field in dataclasses.fields(option):
                inner.setdefault(field.name, []).append(f"{table}.{field.name}")
    return inner


def _at(where: str, what: str) -> str:
    """A place inside another, joined by a colon; "" is the outermost place."""
    return f"{where}: {what}" if where else what


def _convert(hint: Any, value: Any, where: str, default: Any = None) -> Any:
    options = _options(hint)
    if Any in options or value in choices(hint):
        return value
    for option in options:
        if dataclasses.is_dataclass(option) and isinstance(value, Mapping):
            inner = typing.cast(type[Any], option)
            return from_mapping(
                inner, value, where, default if isinstance(default, inner) else None
            )
        if typing.get_origin(option) is tuple and isinstance(value, list | tuple):
            return _convert_list(typing.get_args(option), value, where)
        if typing.get_origin(option) is list and isinstance(value, list):
            (member,) = typing.get_args(option)
            return [_convert(member, each, where) for each in value]
        if typing.get_origin(option) is dict and isinstance(value, Mapping):
            _, member = typing.get_args(option)
            return {
                key: _convert(member, each, _at(where, key if key.isprintable() else repr(key)))
                for key, each in value.items()
            }
    is_number = int in options or float in options
    if type(value) is int and is_number and not SMALLEST_INT <= value <= LARGEST_INT:
        raise WrongValueError(where, shown_value(value), "a number of at most 64 bits")
    if float in options and type(value) is int:
        return float(value)
    if Path in options and isinstance(value, str | Path):
        return Path(value)
    if type(value) not in options:
        raise WrongValueError(where, shown_value(value), _expected(hint))
    return value


def _expected(hint: Any) -> str:
    allowed = choices(hint)
    names = [_type_name(option) for option in _options(hint) if not _is_literal(option)]
    if allowed:
        names = [name for name in names if name != "None"]
        names.append(f"one of {', '.join(map(str, allowed))}")
    return " or ".join(names)


def _type_name(option: Any) -> str:
    if dataclasses.is_dataclass(option) or typing.get_origin(option) is dict:
        return "a table"
    if typing.get_origin(option) is list:
        return "a list"
    return "None" if option is types.NoneType else getattr(option, "__name__", str(option))


def _convert_list(members: tuple[Any, ...], values: Sequence[Any], where: str) -> tuple[Any, ...]:
    members = _members(members, len(values))
    if len(values) != len(members):
        raise ConfigError(f"{where}: found {len(values)} values, expected {len(members)}")
    pairs = zip(members, values, strict=True)
    return tuple(_convert(member, value, where) for member, value in pairs)


def _members(members: tuple[Any, ...], n_values: int) -> tuple[Any, ...]:
    """The type of each member of a tuple; `int, ...` is repeated for each value."""
    return members[:1] * n_values if members[-1] is Ellipsis else members


def _options(hint: Any) -> tuple[Any, ...]:
    """The types in a union, without Annotated; any other type by itself."""
    bare = _bare(hint)
    return tuple(map(_bare, typing.get_args(bare))) if _is_union(bare) else (bare,)


def _bare(hint: Any) -> Any:
    return hint.__origin__ if typing.get_origin(hint) is Annotated else hint


def _is_union(hint: Any) -> bool:
    return isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union


def _is_literal(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.Literal
