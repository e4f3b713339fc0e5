"""Experiment files: TOML, possibly based on other such files, split into a file per top-level table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os.path import normpath
from pathlib import Path
from typing import Any

from moses_bridge.base.config import load_toml, nearest
from moses_bridge.base.config_text import to_toml
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.lock import held_directory
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.textio import StrPath, write_changed

BASE = "base"


def split_experiment(experiments: Sequence[StrPath], out: Path) -> list[Path]:
    """Write each top-level table of an experiment (see `load_experiment`) to OUT/NAME.toml; return these files.

    Files that would stay the same are not touched, so that make repeats only steps depending on a changed
    table.

    Raises:
        InputError: an experiment is missing or is not TOML.
        ConfigError: a key is outside any table, files are bases of each other, or a file of the experiment
            would be overwritten.
        UserError: another command is writing into the directory.
    """
    merged = load_experiment(experiments)
    files = [out / f"{name}.toml" for name in merged]
    refuse_overwriting(files, experiment_files(experiments))
    with held_directory(out):
        for path, table in zip(files, merged.values(), strict=True):
            write_changed(path, to_toml(table).encode())
    return files


def load_experiment(experiments: Sequence[StrPath]) -> dict[str, dict[str, Any]]:
    """Read an experiment: the tables of its files, joined.

    A file with base = "FILE", or a list of files, changes these files; their paths are relative to its own.
    Keys of a later file replace those of earlier ones. A table with base = "TABLE" has the keys of that
    table besides its own.

    Raises:
        InputError: a file is missing or is not TOML.
        ConfigError: a key is outside any table, files are bases of each other, or the base of a table is
            missing or has a base itself.
    """
    merged = merge(_tables(path) for path in experiment_files(experiments))
    where = ", ".join(map(str, experiments))
    return {name: _with_base(name, merged, where) for name in merged}


def _with_base(name: str, tables: Mapping[str, Any], where: str) -> dict[str, Any]:
    own = {key: value for key, value in tables[name].items() if key != BASE}
    base = tables[name].get(BASE)
    if base is None:
        return own
    if base not in tables:
        others = tables.keys() - {name}
        raise ConfigError(
            f"{where}: {name}: unknown base {base!r}{nearest(str(base), others, 'tables')}"
        )
    if BASE in tables[base]:
        raise ConfigError(f"{where}: {name}: its base {base!r} has a base itself")
    return merge([tables[base], own])


def merge(experiments: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Join mappings; keys of a later one replace those of earlier ones, inside tables too."""
    merged: dict[str, Any] = {}
    for later in experiments:
        both = merged.keys() & later.keys()
        inner = {
            name: merge([merged[name], later[name]])
            for name in both
            if isinstance(merged[name], Mapping) and isinstance(later[name], Mapping)
        }
        merged = {**merged, **later, **inner}
    return merged


def experiment_files(experiments: Iterable[StrPath]) -> list[Path]:
    """All files of an experiment, each once, after its base files.

    Raises:
        InputError: a file is missing or is not TOML.
        ConfigError: base is neither a file nor a list of files, or files are bases of each other.
    """
    files: list[Path] = []
    for experiment in experiments:
        _add_with_bases(Path(normpath(experiment)), files, ())
    return files


def _add_with_bases(path: Path, files: list[Path], changed_by: tuple[Path, ...]) -> None:
    if path in changed_by:
        raise ConfigError(f"{path}: it is a base of itself, by {changed_by[-1]}")
    base = load_toml(path).get(BASE, [])
    bases = [base] if isinstance(base, str) else base
    if not (isinstance(bases, list) and all(isinstance(name, str) for name in bases)):
        raise ConfigError(f"{path}: {BASE}: found {base!r}, expected a file or a list of files")
    for name in bases:
        _add_with_bases(Path(normpath(path.parent / name)), files, (*changed_by, path))
    if path not in files:
        files.append(path)


def _tables(experiment: Path) -> dict[str, dict[str, Any]]:
    tables = {name: table for name, table in load_toml(experiment).items() if name != BASE}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{experiment}: the key {name!r} is outside any table")
    return tables
