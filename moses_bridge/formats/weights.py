"""Weights by feature name as JSON: {"LM0": [0.5], "TranslationModel0": [0.2, 0.2, 0.2, 0.2]}."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any

from moses_bridge.base.config import shown_value
from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import parse_json
from moses_bridge.base.progress import print_note
from moses_bridge.base.textio import StrPath, read_bytes
from moses_bridge.formats.moses_ini import read_ini

WEIGHTS_KEY = "weights"


def read_weights(path: StrPath) -> dict[str, tuple[float, ...]]:
    """Read weights, as such a table or from the entry "weights" of a larger one (a tuning run's).

    Raises:
        InputError: the file is not JSON, or a weight is not a finite number or a list of them.
    """
    table, _ = _table(path)
    return {name: _values(name, value, path) for name, value in table.items()}


def weights_over_ini(path: StrPath, ini: StrPath) -> dict[str, tuple[float, ...]]:
    """Read weights that are used instead of those of an ini.

    Those of a tuning run are weights of a whole system: none may be missing. Of a table of weights, standard
    error says which features keep the weights of the ini.

    Raises:
        InputError: as of `read_weights`, or the weights of a run leave out a feature of the ini.
    """
    table, of_run = _table(path)
    weights = {name: _values(name, value, path) for name, value in table.items()}
    wanted = read_ini(ini).weights
    if of_run:
        check_complete(weights, wanted, path)
    if kept := [name for name in wanted if name not in weights]:
        print_note(f"{os.fspath(path)}: has no weight of {', '.join(kept)}: {os.fspath(ini)} has")
    return weights


def _table(path: StrPath) -> tuple[dict[str, Any], bool]:
    """The table of weights in a file, and whether the file is that of a run."""
    content = parse_json(read_bytes(path), path)
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
    """Whether a value is a number that a float can be; a whole number of JSON may be larger."""
    try:
        return type(number) in (int, float) and math.isfinite(number)
    except OverflowError:
        return False


def check_complete(weights: Iterable[str], wanted: Iterable[str], path: StrPath) -> None:
    """Refuse weights that leave out features: those of the ini would take their place in silence.

    Args:
        weights: names of the features that have weights.
        wanted: names of the features of the ini.
        path: of the weights, for the message of the error.

    Raises:
        InputError: a feature has none.
    """
    found = [*weights]
    missing = [name for name in wanted if name not in found]
    if missing:
        raise InputError(
            path,
            None,
            f"no weight of {', '.join(missing)}",
            "one of each feature of moses.ini",
            "Add those of the ini if they are meant",
        )
