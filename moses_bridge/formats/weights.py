"""Weights by feature name as JSON: {"LM0": [0.5], "TranslationModel0": [0.2, 0.2, 0.2, 0.2]}."""

from __future__ import annotations

import json
import math
from typing import Any

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath, open_read

WEIGHTS_KEY = "weights"


def read_weights(path: StrPath) -> dict[str, tuple[float, ...]]:
    """Read weights, as such a table or from the entry "weights" of a larger one (a tuning run's).

    Raises:
        InputError: the file is not JSON, or a weight is not a finite number or a list of them.
    """
    with open_read(path) as stream:
        try:
            content = json.load(stream)
        except ValueError as error:
            raise InputError(path, None, str(error), "a JSON file") from error
    table = content.get(WEIGHTS_KEY, content) if isinstance(content, dict) else content
    if not isinstance(table, dict):
        raise InputError(path, None, f"{str(table)[:60]!r}", 'weights by name, as {"LM0": [0.5]}')
    return {name: _values(name, value, path) for name, value in table.items()}


def _values(name: str, value: Any, path: StrPath) -> tuple[float, ...]:
    values = value if isinstance(value, list) else [value]
    for number in values:
        if type(number) not in (int, float) or not math.isfinite(number):
            raise InputError(path, None, f"{number!r} as a weight of {name}", "a finite number")
    return tuple(map(float, values))
