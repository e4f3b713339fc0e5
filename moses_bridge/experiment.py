"""Experiment files: one TOML table for each command, taken apart into a file for each."""

from __future__ import annotations

from pathlib import Path

from moses_bridge.config import load_toml
from moses_bridge.config_text import to_toml
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
