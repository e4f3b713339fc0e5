"""Weights by feature name, and weights of sparse values.

A file of weights is JSON, {"LM0": [0.5], "TranslationModel0": [0.2, 0.2, 0.2, 0.2]}, or a moses.ini. Weights
of sparse values are lines "name value" in the [weight-file] of a moses.ini, or in its [weight].
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from moses_bridge.base.config import shown_value
from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.json_files import parse_json
from moses_bridge.base.text_lines import say
from moses_bridge.base.textio import StrPath, read_bytes, read_lines, write_lines
from moses_bridge.formats.moses_ini import (
    WEIGHT_FILE,
    MosesIni,
    parse_ini,
    read_ini,
    sparse_beginnings,
    with_sections,
)
from moses_bridge.formats.moses_ini_v1 import is_version_1
from moses_bridge.formats.words import split_words, to_number

WEIGHTS_KEY = "weights"


def read_weights(path: StrPath) -> dict[str, tuple[float, ...]]:
    """Read a table of weights, alone in a file or as the entry "weights" of a larger one (a tuning run's).

    The weights of a moses.ini are read too, with those of its [weight-file].

    Raises:
        InputError: the file is neither JSON nor a moses.ini, or a weight is not a finite number or a list of
            them.
    """
    table, _ = _table(path)
    return {name: _values(name, value, path) for name, value in table.items()}


def weights_over_ini(path: StrPath, ini: StrPath) -> dict[str, tuple[float, ...]]:
    """Read weights replacing those of an ini.

    Weights of a tuning run or another ini belong to a whole system, so none may be missing. For a table of
    weights, the features keeping the weights of the ini are named on standard error.

    Raises:
        InputError: as for `read_weights`, or the weights of a run leave out a feature of the ini.
    """
    table, of_run = _table(path)
    weights = {name: _values(name, value, path) for name, value in table.items()}
    wanted = read_ini(ini).weights
    if of_run:
        check_complete(weights, wanted, path)
    if kept := [name for name in wanted if name not in weights]:
        say(f"{os.fspath(path)}: has no weight of {', '.join(kept)}: {os.fspath(ini)} has")
    return weights


def _table(path: StrPath) -> tuple[dict[str, Any], bool]:
    """The table of weights in a file, and whether it is a whole system's: of a tuning run or an ini."""
    data = read_bytes(path)
    lines = tuple(data.split(b"\n"))
    sections = with_sections(lines)
    if any(section == "weight" for section, _ in sections) or is_version_1(sections):
        ini = parse_ini(lines, Path(path))
        sparse = {name: [weight] for name, weight in sparse_weights(ini).items()}
        return {name: [*values] for name, values in ini.weights.items()} | sparse, True
    content = parse_json(data, path, expected='JSON, {"LM0": [0.5]}, or a moses.ini')
    of_run = isinstance(content, dict) and WEIGHTS_KEY in content
    table = content[WEIGHTS_KEY] if of_run else content
    if not isinstance(table, dict):
        raise InputError(path, None, shown_value(table), 'weights by name, as {"LM0": [0.5]}')
    return table, of_run


def _values(name: str, value: Any, path: StrPath) -> tuple[float, ...]:
    values = value if isinstance(value, list) else [value]
    for number in values:
        if not _is_finite(number):
            found = f"{shown_value(number)} as a weight of {name}"
            raise InputError(path, None, found, "a finite number")
    return tuple(map(float, values))


def _is_finite(number: Any) -> bool:
    """Whether a value is a number fitting a float; a whole number in JSON may be larger."""
    try:
        return type(number) in (int, float) and math.isfinite(number)
    except OverflowError:
        return False


def check_complete(weights: Iterable[str], wanted: Iterable[str], path: StrPath) -> None:
    """Refuse (InputError) weights without some wanted features, which would silently keep those of the ini."""
    known = {*weights}
    missing = [name for name in wanted if name not in known]
    if missing:
        found = f"no weight of {', '.join(missing)}"
        hint = "Add those of the ini if they are meant"
        raise InputError(path, None, found, "one of each feature of moses.ini", hint)


def sparse_weights(ini: MosesIni) -> dict[str, float]:
    """The weights of an ini for names other than features; those in [weight] replace those in the file.

    As in Moses, other names in the file are ignored unless they begin with the name of a feature and "_".

    Raises:
        InputError: there are several files, the file is malformed, or such a name has several weights.
    """
    files = ini.settings.get(WEIGHT_FILE, ())
    if len(files) > 1:
        raise InputError(ini.path, None, f"{len(files)} lines of [{WEIGHT_FILE}]", "one file")
    names = {feature.name for feature in ini.features}
    begins = sparse_beginnings(ini.features)
    in_file = read_weight_file(ini.resolve(files[0])) if files else {}
    weights = {name: weight for name, weight in in_file.items() if name.startswith(begins)}
    for name, values in ini.weights.items():
        if name not in names:
            if len(values) != 1:
                found = f"{len(values)} weights of {name}, which is no feature"
                raise InputError(ini.path, None, found, "one, if it is a sparse feature")
            weights[name] = values[0]
    return weights


def read_weight_file(path: Path) -> dict[str, float]:
    """Read a file of sparse weights: lines beginning with "#" are comments; of equal names the last one counts.

    As in Moses (FVector::load), the text after the value is ignored. Empty lines are skipped.

    Raises:
        InputError: the file cannot be read, or a line has no finite number as its second word.
    """
    weights: dict[str, float] = {}
    for line_number, line in enumerate(read_lines(path), start=1):
        words = split_words(line)
        if not words or line.startswith(b"#"):
            continue
        value = to_number(words[1]) if len(words) > 1 else math.nan
        if not math.isfinite(value):
            expected = "the name of a sparse feature and its weight"
            raise InputError(path, line_number, shown(line), expected)
        weights[words[0].decode("utf-8", "surrogateescape")] = value
    return weights


def write_weight_file(path: Path, weights: Mapping[str, float]) -> None:
    """Write a file of sparse weights."""
    lines = [f"{name} {weight!r}" for name, weight in weights.items()]
    write_lines(path, [line.encode("utf-8", "surrogateescape") for line in lines])
