"""Experiment files: one TOML table for each command, taken apart into a file for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from moses_bridge.base.config import load_toml
from moses_bridge.base.config_text import to_toml
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.textio import StrPath, open_write


def split_experiment(experiments: Sequence[StrPath], out: Path) -> list[Path]:
    """Write each top-level table of experiment files to OUT/NAME.toml.

    Where several files are given, keys of a later one stand in the place of those of the ones before. A
    file whose text would stay the same is not touched, so that make reruns only what depends on a table
    that changed.

    Returns:
        The files, changed or not.

    Raises:
        InputError: an experiment is missing or is not TOML.
        ConfigError: a key stands outside any table.
    """
    merged: dict[str, Any] = {}
    for experiment in experiments:
        merged = _merged(merged, _tables(experiment))
    for name, table in merged.items():
        path = out / f"{name}.toml"
        text = to_toml(table).encode()
        if not (path.exists() and path.read_bytes() == text):
            with open_write(path) as stream:
                stream.write(text)
    return [out / f"{name}.toml" for name in merged]


def _tables(experiment: StrPath) -> dict[str, dict[str, Any]]:
    tables = load_toml(experiment)
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{experiment}: the key {name!r} stands outside any table")
    return tables


def _merged(before: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**before, **later}
    for name in before.keys() & later.keys():
        if isinstance(before[name], dict) and isinstance(later[name], dict):
            merged[name] = _merged(before[name], later[name])
    return merged
