"""Windows of a training in mapped files, held-out ones apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFile, temporary_arrays


class WindowRows(NamedTuple):
    """Windows with the predicted word behind each.

    Attributes:
        train: *Shape:* (n, width + 1).
        held_out: *Shape:* (n_held_out, width + 1).
    """

    train: NDArray[np.int32]
    held_out: NDArray[np.int32]


def mapped_rows(
    parts: Iterable[tuple[NDArray[np.int32], NDArray[np.int64]]], held_out: NDArray[np.bool_]
) -> WindowRows:
    """Write windows into anonymous files, deleted with the arrays.

    The files are in the directory of temporary files (TMPDIR); the system reads them on demand.

    Args:
        parts: windows of sentences that follow each other, with the sentence of each, counted from 0 in
            each part; each sentence has one at least.
        held_out: which of the sentences are held out, *Shape:* (n_sentences,).

    Raises:
        OSError: the disk is full.
    """
    with temporary_arrays() as files:
        train, rest = files.new(np.int32), files.new(np.int32)
        n_before, width = 0, 1
        for rows, sentences in parts:
            width = rows.shape[1]
            is_held_out = held_out[n_before + sentences]
            train.append(rows[~is_held_out].ravel())
            rest.append(rows[is_held_out].ravel())
            n_before += int(sentences[-1]) + 1
        return WindowRows(_rows(train, width), _rows(rest, width))


def _rows(values: ArrayFile[np.int32], width: int) -> NDArray[np.int32]:
    return values.mapped().reshape(-1, width)
