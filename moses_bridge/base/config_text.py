"""Settings as text: TOML with the meaning of each key, and rows for a list of all settings."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from moses_bridge.base.config import choices, limits
from moses_bridge.base.errors import ConfigError

COMMENT_WIDTH = 98
TOML_NAMES = {int: "integer", float: "number", bool: "boolean", str: "string", Path: "string"}
ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


@dataclass(frozen=True)
class Setting:
    """One key of a settings file, or one table of keys.

    Attributes:
        name: its name, like "loop.max_minutes" in a table.
        meaning: its sentence in the docstring of the dataclass.
        kind: its type, in TOML's words.
        limits: its allowed values in words; "" for any of its type.
        value: its value; None if not set, and for a table.
    """

    name: str
    meaning: str
    kind: str
    limits: str
    value: Any
    is_table: bool


def settings_of(config: Any, table: str = "") -> Iterator[Setting]:
    """Yield each key of a dataclass of settings in order, a table before its keys; `table` is its own name."""
    hints = typing.get_type_hints(type(config), include_extras=True)
    texts = meanings(type(config))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        name = f"{table}.{field.name}" if table else field.name
        if dataclasses.is_dataclass(value):
            yield Setting(name, texts[field.name], "table", "", None, True)
            yield from settings_of(value, name)
        else:
            hint = hints[field.name]
            kind, limit = type_in_words(hint), limits_in_words(hint)
            yield Setting(name, texts[field.name], kind, limit, value, False)


def meanings(kind: type[Any]) -> dict[str, str]:
    """The meaning of each field, from the section "Attributes:" of the docstrings of a dataclass and its bases.

    TypeError if a field is not explained.
    """
    texts: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        texts |= _attributes(inspect.cleandoc(owner.__dict__.get("__doc__") or ""))
    for field in dataclasses.fields(kind):
        if field.name not in texts:
            raise TypeError(f'{kind.__name__}.{field.name} is missing below "Attributes:"')
    return texts


def _attributes(docstring: str) -> dict[str, str]:
    section = docstring.partition("\nAttributes:\n")[2].partition("\n\n")[0]
    return {name: re.sub(r"\n +", " ", text) for name, text in ATTRIBUTE.findall(section)}


def type_in_words(hint: Any) -> str:
    """A type in TOML's words; None is left out; TypeError if no value in TOML has this type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return type_in_words(hint.__origin__)
    if origin is typing.Literal:
        return " or ".join(dict.fromkeys(TOML_NAMES[type(choice)] for choice in arguments))
    if origin in (typing.Union, types.UnionType):
        options = (option for option in arguments if option is not types.NoneType)
        return " or ".join(dict.fromkeys(map(type_in_words, options)))
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"list of {type_in_words(arguments[0])}s"
    if origin is tuple:
        return f"list: {', '.join(map(type_in_words, arguments))}"
    if hint not in TOML_NAMES:
        raise TypeError(f"no value in TOML has the type {hint}")
    return TOML_NAMES[hint]


def limits_in_words(hint: Any) -> str:
    """The allowed values of a type, in words; "" for all."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return ", ".join(filter(None, [*map(str, limits(hint)), limits_in_words(hint.__origin__)]))
    if origin is tuple and arguments[-1] is Ellipsis:
        inner = limits_in_words(arguments[0])
        return f"each {inner}" if inner else ""
    if origin is tuple:
        return "; ".join(filter(None, map(limits_in_words, arguments)))
    allowed = choices(hint)
    named = f"one of {', '.join(map(toml_value, allowed))}" if allowed else ""
    options = () if origin is typing.Literal else arguments
    others = [
        limits_in_words(option)
        for option in options
        if typing.get_origin(option) is not typing.Literal
    ]
    return " or ".join(filter(None, [*others, named]))


def commented_toml(config: Any) -> str:
    """TOML text of a dataclass of settings, each key below its meaning and its limits.

    Reading it gives the same settings. A key without a value becomes a comment, since TOML has no None.
    """
    tables: dict[str, list[Setting]] = {"": []}
    headers: dict[str, str] = {}
    for setting in settings_of(config):
        if setting.is_table:
            tables[setting.name] = []
            headers[setting.name] = setting.meaning
        else:
            tables[setting.name.rpartition(".")[0]].append(setting)
    return "\n".join(
        "".join(f"{line}\n" for line in _table_lines(name, headers.get(name, ""), settings))
        for name, settings in tables.items()
    )


def _table_lines(name: str, meaning: str, settings: list[Setting]) -> Iterator[str]:
    if name:
        yield from _comment(meaning)
        yield f"[{name}]"
    for i, setting in enumerate(settings):
        if i:
            yield ""
        key = setting.name.rpartition(".")[2]
        note = f" [{setting.limits}]" if setting.limits else ""
        yield from _comment(f"{setting.meaning}{note}")
        if setting.value is None:
            yield f"# {key} is not set"
        else:
            yield f"{key} = {toml_value(setting.value)}"


def _comment(text: str) -> list[str]:
    wrapper = textwrap.TextWrapper(COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ")
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    return wrapper.wrap(text)


def to_toml(table: Mapping[str, Any]) -> str:
    """TOML text of a table of values and tables; see `toml_value`."""
    return "".join(f"{line}\n" for line in _toml_lines(table, ()))


def _toml_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    for key, value in table.items():
        if key not in nested:
            yield f"{_quoted(key)} = {toml_value(value)}"
    for key, value in nested.items():
        inner = (*path, _quoted(key))
        yield f"[{'.'.join(inner)}]"
        yield from _toml_lines(value, inner)


def toml_value(value: Any) -> str:
    """A value in TOML's notation; ConfigError if TOML has no values of this type."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, Mapping):
        pairs = (f"{_quoted(key)} = {toml_value(inner)}" for key, inner in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, str | Path):
        return _quoted(str(value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    raise ConfigError(f"a value of type {type(value).__name__} cannot be written in a TOML file")


def _quoted(text: str) -> str:
    """A basic string: JSON's escapes, and one more for DEL, which TOML forbids."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
