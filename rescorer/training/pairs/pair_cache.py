"""The pairs of a phrase table, read once and kept in a directory for later trainings, or for one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

from moses_bridge.base.config import shown_value
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.lock import held_file
from moses_bridge.base.progress import print_note, unless_full
from moses_bridge.base.textio import (
    StrPath,
    is_stream,
    named_errors,
    open_directory,
    temporary_directory,
)
from rescorer.training.pairs.pair_files import HEADER_NAME, PairFiles, read_header, write_pairs
from rescorer.training.pairs.phrase_pairs import PairChoice


def stored_pairs(table: StrPath, choice: PairChoice, cache: StrPath | None) -> PairFiles:
    """The distinct pairs of the chosen rows of a phrase table, in files.

    The cache is a directory with the pairs of an earlier training, or to keep them in; without it files are
    in the system's directory of temporary files, deleted with the process.

    Raises:
        InputError: a row is malformed, no pair is left, or the directory is not a cache or damaged.
        ConfigError: the directory has the pairs of another table or choice.
        OSError: the disk is full.
    """
    if cache is None:
        return _own_pairs(table, choice)
    if is_stream(table):
        raise ConfigError(
            f"a table that is no file cannot be known again: leave --cache {cache} out"
        )
    identity = {"table": _identity(table), "choice": asdict(choice)}
    directory = Path(os.path.realpath(cache))
    if not _is_new(directory):
        return _known_pairs(table, identity, directory)
    with held_file(directory, waits=True):
        if not _is_new(directory):  # another training has written them meanwhile
            return _known_pairs(table, identity, directory)
        with (
            unless_full(directory, "the pairs are not kept"),
            open_directory(directory) as unfinished,
        ):
            write_pairs(table, choice, identity, unfinished)
    return _own_pairs(table, choice) if _is_new(directory) else PairFiles(directory)


def _own_pairs(table: StrPath, choice: PairChoice) -> PairFiles:
    with temporary_directory("pairs") as directory:
        with named_errors(directory):
            write_pairs(table, choice, {}, directory)
        return PairFiles(directory)


def _known_pairs(table: StrPath, identity: Mapping[str, Any], directory: Path) -> PairFiles:
    _check(read_header(directory), identity, table, directory)
    print_note(f"{directory}: has the pairs of {os.fspath(table)} already")
    files = PairFiles(directory)
    files.verify()
    return files


def _identity(table: StrPath) -> dict[str, Any]:
    try:
        with open(table, "rb", buffering=0) as file:
            digest = file_digest(file, partial(blake2b, digest_size=16))
            return {"bytes": file.tell(), "digest": digest.hexdigest()}
    except OSError as error:
        raise InputError(table, None, error.strerror or str(error), "a readable file") from error


def _is_new(directory: Path) -> bool:
    return not directory.exists() or (
        not (directory / HEADER_NAME).exists() and not any(directory.iterdir())
    )


def _check(
    header: Mapping[str, Any], identity: Mapping[str, Any], table: StrPath, directory: Path
) -> None:
    advice = "name another directory, or remove this one"
    if header.get("table") != identity["table"]:
        raise ConfigError(
            f"--cache {directory} has the pairs of another table than {table}: {advice}"
        )
    found, wanted = header.get("choice", {}), identity["choice"]
    for name, value in wanted.items():
        if found.get(name) != value:
            other = shown_value(found.get(name))
            raise ConfigError(
                f"--cache {directory} was made with {name} {other}, not {value}: {advice}"
            )
