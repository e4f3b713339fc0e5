"""Experiment files: one TOML table for each command, taken apart into a file for each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from moses_bridge.config import load_toml
from moses_bridge.errors import ConfigError
from moses_bridge.textio import StrPath, open_write


def split_experiment(experiment: StrPath, out: Path) -> list[Path]:
    """Write each top-level table of an experiment file to OUT/NAME.toml.

    A file whose text would stay the same is not touched, so that make reruns only what depends on a
    table that changed.

    Returns:
        The files, changed or not.

    Raises:
        InputError: the experiment is missing or is not TOML.
        ConfigError: a key stands outside any table.
    """
    paths = []
    for name, table in load_toml(experiment).items():
        if not isinstance(table, dict):
            raise ConfigError(f"{experiment}: the key {name!r} stands outside any table")
        path = out / f"{name}.toml"
        text = to_toml(table).encode()
        if not (path.exists() and path.read_bytes() == text):
            with open_write(path) as stream:
                stream.write(text)
        paths.append(path)
    return paths


def to_toml(table: Mapping[str, Any]) -> str:
    """TOML text of a table of strings, numbers, truth values, lists and tables of them.

    Raises:
        ConfigError: a value of another type.
    """
    return "".join(f"{line}\n" for line in _toml_lines(table, ()))


def _toml_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    for key, value in table.items():
        if key not in nested:
            yield f"{_quoted(key)} = {_toml_value(value)}"
    for key, value in nested.items():
        inner = (*path, _quoted(key))
        yield f"[{'.'.join(inner)}]"
        yield from _toml_lines(value, inner)


def _toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, Mapping):
        pairs = (f"{_quoted(key)} = {_toml_value(inner)}" for key, inner in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    raise ConfigError(f"a value of type {type(value).__name__} cannot stand in an experiment file")


def _quoted(text: str) -> str:
    """A basic string: what JSON escapes and the one character more that TOML forbids."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
