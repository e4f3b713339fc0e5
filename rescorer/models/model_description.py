"""The description of a model, config.json, checked before anything uses it, and its model card."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.json_files import check_plain_file, open_record_of, read_json
from moses_bridge.base.textio import write_lines
from rescorer.contract.architectures import ARCHITECTURES, Architecture, is_foreign, load
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
    """The common keys of all descriptions, besides those checked one by one."""

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
        InputError: the directory is none of a model, or the file is malformed, of another version,
            or has a value of a wrong type.
    """
    path = directory / DESCRIPTION
    if (directory / FOLDS).exists():
        found = "networks trained with folds, which this version does not score together"
        hint = f"Name one of them, as {directory / 'fold0'}, or train without folds"
        raise InputError(directory, None, found, "one network", hint)
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
        is_newer = isinstance(version, int) and version > FORMAT_VERSION
        hint = "Update rescorer" if is_newer else "Train the model again with this version"
        raise InputError(path, None, found, str(FORMAT_VERSION), hint)
    _check_types(description, path)
    return _with_reading(description, path)


def check_model_files(directory: Path) -> None:
    """Refuse (InputError) a file of a model that is a pipe, a device or a directory."""
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
        told = ", ".join(map(repr, sorted(names)))[:120] or "nothing"
        fault, expected = f"digests of {told} in 'vocabularies'", " and ".join(sorted(wanted))
        raise InputError(path, None, fault, f"those of {expected}", TRAIN_AGAIN)


def _with_reading(description: dict[str, Any], path: Path) -> dict[str, Any]:
    """The record as it is written now: earlier versions had two keys instead of `reading`."""
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


CARD = "model_card.md"
COUNTS = {"n_pairs": "distinct phrase pairs", "n_sentences": "sentences"}


def write_model_card(directory: Path, name: str, training: Mapping[str, Any]) -> None:
    """Write model_card.md from the architecture and the training in config.json; nothing reads it.

    Raises:
        OSError: the file cannot be written.
    """
    lines = _card(directory, name, training)  # file names may have bytes outside UTF-8
    write_lines(directory / CARD, (line.encode("utf-8", "surrogateescape") for line in lines))


def _card(directory: Path, name: str, training: Mapping[str, Any]) -> Iterator[str]:
    architecture = load(name)
    yield f"# Model card: {directory.resolve().name}"
    yield ""
    yield f"A model of the architecture `{name}`, trained on {architecture.data}."
    yield ""
    yield from _facts(training)
    yield ""
    yield "## Settings that differ from the defaults"
    yield ""
    yield from _settings(training, asdict(architecture.settings()))
    yield "## Scoring"
    yield ""
    yield from _scoring(directory, architecture)


def _facts(training: Mapping[str, Any]) -> Iterator[str]:
    made, report = training.get("made", {}), training.get("report", {})
    for name, digest in made.get("files", {}).items():
        yield f"- Data: `{name}`, SHA-256 {digest}"
    for key, what in COUNTS.items():
        if key in training:
            yield f"- Number of {what}: {training[key]:,}"
    if "data" in training:
        yield f"- Digest of the data as they were read: {training['data']}"
    if report.get("held_out_loss") is not None:
        yield f"- Held-out loss: {report['held_out_loss']:.4f} nats per word, `</s>` included"
    if report:
        yield f"- Updates: {report['n_updates']:,} in {report['minutes']:.1f} minutes; {report['ended']}"
    if "seed" in training:
        yield f"- Seed: {training['seed']}"
    if "start" in training:
        yield f"- Trained further from a network whose files have the digest {training['start']}"
    if tuned := training.get("expected_bleu"):
        loss = tuned["report"]["held_out_loss"]
        held_out = "" if loss is None else f"; held-out expected sentence BLEU {-loss:.2f} of 100"
        yield f"- Fine-tuned for expected BLEU, {tuned['report']['n_updates']:,} updates{held_out}"
    yield f"- Version of rescorer: {made.get('version') or 'unknown'}"


def _settings(training: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    given = {**training.get("config", {}), "loop": training.get("loop", {})}
    different = [*_differences(given, defaults)]
    if not different:
        yield from ("None.", "")
        return
    yield from ("```toml", *different, "```", "")


def _differences(
    given: Mapping[str, Any], defaults: Mapping[str, Any], table: str = ""
) -> Iterator[str]:
    """The keys with other values than the defaults, as lines of TOML."""
    for key, value in given.items():
        if isinstance(value, Mapping):
            yield from _differences(value, defaults.get(key, {}), f"{table}{key}.")
        elif value is not None and value != defaults.get(key):
            yield f"{table}{key} = {json.dumps(value, ensure_ascii=False)}"


def _scoring(directory: Path, architecture: Architecture[Any, Any]) -> Iterator[str]:
    name = shlex.quote(directory.resolve().name)
    if architecture.data == "phrase pairs":
        yield "A column of a phrase table:"
        command = f"rescorer score phrase-table.gz --model {name} --out scored.gz"
    else:
        yield "A feature of n-best lists:"
        command = (
            "rescorer nbest list.nbest --source source.txt "
            f"--model {name} --feature Neural0 --out new.nbest"
        )
    yield from ("", "```", command, "```")
