"""Weights of sparse features: a line "name value" each in the [weight-file] of a moses.ini, or its [weight]."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.formats.moses_ini import WEIGHT_FILE, MosesIni, sparse_beginnings
from moses_bridge.formats.phrase_table import to_number
from moses_bridge.formats.words import split_words


def sparse_weights(ini: MosesIni) -> dict[str, float]:
    """The weights of an ini that are of no feature by its name; those of [weight] replace those of the file.

    As in Moses, the file may have more: a name without that of a feature and "_" before it is let pass.

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
    """Read such a file: lines that begin with "#" are comments, and of equal names the last one counts.

    As in Moses (FVector::load), what stands behind the value does not count. An empty line is skipped.

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
    """Write such a file."""
    lines = [f"{name} {weight!r}" for name, weight in weights.items()]
    write_lines(path, [line.encode("utf-8", "surrogateescape") for line in lines])
