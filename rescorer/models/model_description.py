"""The config.json of a model directory: what its network is, checked before anything uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.json_files import check_plain_file, open_record_of, read_json
from rescorer.contract.architectures import ARCHITECTURES, is_foreign
from rescorer.contract.choices import FORMER_READING_KEYS, Reading

FORMAT_VERSION = 1
WEIGHTS = "model.safetensors"
DESCRIPTION = "config.json"
SOURCE_VOCABULARY = "source.vocab"
TARGET_VOCABULARY = "target.vocab"
# A directory of networks trained with folds, which earlier versions wrote, has this file.
FOLDS = "folds.json"
MODEL_FILES = (DESCRIPTION, WEIGHTS, SOURCE_VOCABULARY, TARGET_VOCABULARY)
TRAIN_AGAIN = "Train the model again"
# By the values of the keys reverse_sides and right_to_left, which models of earlier versions have.
FORMER_READINGS: Mapping[tuple[bool, bool], Reading] = {
    (False, False): "as-is",
    (True, False): "reversed-sides",
    (False, True): "right-to-left",
    (True, True): "reversed-sides-right-to-left",
}


@dataclass(frozen=True)
class _Description:
    """What every description has, besides what is checked one by one."""

    vocabularies: dict[str, str]
    training: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Training:
    config: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Report:
    log_z_mean: float | None = None
    log_z_sd: float | None = None


def read_description(directory: Path) -> dict[str, Any]:
    """The config.json of a model directory, its reading spelt as it is written now.

    Raises:
        InputError: the directory is none of a model, or the file is malformed, of another version, or has a
            value of a wrong type.
    """
    path = directory / DESCRIPTION
    if (directory / FOLDS).exists():
        raise InputError(
            directory,
            None,
            "networks trained with folds, which this version does not score together",
            "one network",
            f"Name one of them, as {directory / 'fold0'}, or train without folds",
        )
    check_model_files(directory)
    description = read_json(path)
    if not isinstance(description, dict) or not isinstance(description.get("architecture"), str):
        raise InputError(path, None, "no known architecture", f"one of {', '.join(ARCHITECTURES)}")
    try:
        is_foreign(description["architecture"])
    except ConfigError as error:
        hint = f"There is {error}"
        raise InputError(path, None, "no known architecture", "the name of one", hint) from error
    if not isinstance(description.get("model"), dict):
        raise InputError(path, None, "no sizes of the network", 'a table "model"')
    version = description.get("format_version")
    if version != FORMAT_VERSION:
        found = f"format version {version if isinstance(version, int) else repr(version)[:60]}"
        hint = "Train the model again with this version"
        raise InputError(path, None, found, str(FORMAT_VERSION), hint)
    _check_types(description, path)
    return _with_reading(description, path)


def check_model_files(directory: Path) -> None:
    """Refuse a file of a model that is a pipe, a device or a directory.

    Raises:
        InputError: one is.
    """
    for name in MODEL_FILES:
        check_plain_file(directory / name)


def _check_types(description: Mapping[str, Any], path: Path) -> None:
    """Refuse values of wrong types, and digests of other files than the vocabularies."""
    what = "the config.json of a model"
    found = open_record_of(_Description, description, path, what, TRAIN_AGAIN)
    training = open_record_of(_Training, found.training, path, what, TRAIN_AGAIN)
    open_record_of(_Report, training.report, path, what, TRAIN_AGAIN)
    known = {SOURCE_VOCABULARY, TARGET_VOCABULARY}
    wanted = {name for name in known if (path.parent / name).exists()} | {TARGET_VOCABULARY}
    names = found.vocabularies.keys()
    if not wanted <= names <= known:
        raise InputError(
            path,
            None,
            f"digests of {', '.join(map(repr, sorted(names)))[:120] or 'nothing'} in 'vocabularies'",
            f"those of {' and '.join(sorted(wanted))}",
            TRAIN_AGAIN,
        )


def _with_reading(description: dict[str, Any], path: Path) -> dict[str, Any]:
    """The record as it is written now: earlier versions had two keys in the place of `reading`."""
    training = description.get("training", {})
    config = dict(training.get("config", {}))
    reverses, turns = (bool(config.pop(key, False)) for key in FORMER_READING_KEYS)
    if training.get("config", {}) != config:
        config["reading"] = FORMER_READINGS[reverses, turns]
        description = {**description, "training": {**training, "config": config}}
    if config.get("reading", "as-is") not in get_args(Reading):
        fault = f"reading {repr(config['reading'])[:60]}"
        readings = f"one of {', '.join(get_args(Reading))}"
        raise InputError(path, None, fault, readings, TRAIN_AGAIN)
    return description
