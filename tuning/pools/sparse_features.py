"""Sparse features: named values found in few hypotheses, as columns of a pool.

Moses recognises them by the "_" in their label (`mert/Data.cpp:227`). A hypothesis without one has the value 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath

MAX_FEATURES = 1000  # columns of float64: a pool of a million hypotheses has 8 GB at this number

SparseValue = tuple[int, str, float]


def is_sparse(column: str) -> bool:
    """Whether a column is a sparse feature: "WT_le~the_0" is, "LM0_0" is not."""
    return "_" in column.rpartition("_")[0]


def cut_sparse(
    features: bytes, path: StrPath, line_number: int
) -> tuple[bytes, list[tuple[str, float]]]:
    """Take sparse features out of the feature field of an n-best line.

    Returns:
        The field without them; name and value of each.

    Raises:
        InputError: a sparse feature has not exactly one finite value, or comes twice.
    """
    dense: list[bytes] = []
    cut: dict[str, list[bytes]] = {}
    values = dense
    for token in features.split():
        if token.endswith(b"="):
            name = token[:-1].decode("utf-8", "surrogateescape")
            if name in cut:
                raise InputError(path, line_number, f"{name} twice", "each feature once")
            values = cut.setdefault(name, []) if "_" in name else dense
            if values is not dense:
                continue
        values.append(token)
    return b" ".join(dense), [
        (name, _only_value(name, found, path, line_number)) for name, found in cut.items()
    ]


def _only_value(name: str, values: Sequence[bytes], path: StrPath, line_number: int) -> float:
    if len(values) != 1:
        hint = f'Moses takes "{name}" for a sparse feature because of the "_"'
        raise InputError(path, line_number, f"{len(values)} values of {name}", "1", hint)
    try:
        value = float(values[0])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        found = values[0].decode("utf-8", "replace")
        raise InputError(path, line_number, f"the value {found!r}", "a finite number")
    return value


def with_sparse(
    names: tuple[str, ...],
    values: NDArray[np.float64],
    sparse: Sequence[SparseValue],
    path: StrPath,
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Columns with one more for each sparse feature, sorted by name behind the others.

    Args:
        names: names of the dense columns, *Shape:* (n_features,).
        values: *Shape:* (n, n_features).
        sparse: row, name and value.
        path: file that they come from.

    Raises:
        InputError: there are too many of them for columns.
    """
    added = {name: place for place, name in enumerate(sorted({name for _, name, _ in sparse}))}
    if not added:
        return names, values
    if len(added) > MAX_FEATURES:
        found = f"{len(added)} sparse features"
        raise InputError(path, None, found, f"at most {MAX_FEATURES}", "Leave rare ones out")
    columns = np.zeros((len(values), len(added)))
    for row, name, value in sparse:
        columns[row, added[name]] = value
    return (*names, *(f"{name}_0" for name in added)), np.hstack([values, columns])
