"""Phrases and their summaries: encoded as they are wanted, or kept in a folder for the next time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import read_json, write_json
from moses_bridge.base.lock import held_directory
from moses_bridge.base.progress import Progress
from moses_bridge.base.textio import open_write, read_lines, write_lines
from rescorer.contract.architectures import Summaries
from rescorer.views.cosine import unit_rows

# Phrases encoded, or compared, at once: 16 MB of vectors of the paper's 1,000 units.
PHRASES_AT_ONCE = 4096
VECTORS, PHRASES, DESCRIPTION = "vectors.npy", "phrases.txt", "phrases.json"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class KeptVectors:
    """Phrases and the directions of their summaries, in a folder.

    Attributes:
        phrases: as they were encoded.
        vectors: rows of length 1, read from the disk where they are wanted, *Shape:* (n, d).
    """

    phrases: list[bytes]
    vectors: NDArray[np.float32]

    def blocks(self) -> Iterator[NDArray[np.float32]]:
        """The vectors in runs of rows."""
        for first in range(0, len(self.vectors), PHRASES_AT_ONCE):
            yield np.asarray(self.vectors[first : first + PHRASES_AT_ONCE])


def encoded_blocks(phrases: Sequence[bytes], summaries: Summaries) -> Iterator[NDArray[np.float32]]:
    """The directions of the phrases' summaries, rows of length 1, in runs of rows.

    Args:
        phrases: quickest in an order that puts the same beginnings together.
        summaries: of the model.
    """
    with Progress("encode phrases", len(phrases), "phrases") as progress:
        for first in range(0, len(phrases), PHRASES_AT_ONCE):
            block = phrases[first : first + PHRASES_AT_ONCE]
            yield unit_rows(summaries(block))
            progress.update(len(block))


def keep_vectors(
    folder: Path, identity: dict[str, Any], phrases: Sequence[bytes], summaries: Summaries
) -> None:
    """Encode phrases and write them with their vectors; the description comes last.

    Args:
        folder: made if it is not there.
        identity: of model and table; other ones make the folder unfit.
        phrases: what is encoded.
        summaries: of the model.

    Raises:
        UserError: another command writes into the folder.
    """
    with held_directory(folder):
        _write_vectors(folder, identity, phrases, summaries)


def _write_vectors(
    folder: Path, identity: dict[str, Any], phrases: Sequence[bytes], summaries: Summaries
) -> None:
    (folder / DESCRIPTION).unlink(missing_ok=True)
    blocks = encoded_blocks(phrases, summaries)
    with open_write(folder / VECTORS) as stream:
        for number, block in enumerate(blocks):
            if number == 0:
                header = {"descr": "<f4", "fortran_order": False}
                shape = (len(phrases), block.shape[1])
                np.lib.format.write_array_header_1_0(stream, {**header, "shape": shape})
            stream.write(block.astype("<f4").tobytes())
    write_lines(folder / PHRASES, list(phrases))
    write_json(folder / DESCRIPTION, {"format_version": FORMAT_VERSION, **identity})


def kept_vectors(folder: Path, identity: dict[str, Any]) -> KeptVectors | None:
    """What `keep_vectors` wrote for the same model and table; None where there is nothing of the kind.

    Raises:
        InputError: the folder says that it fits, but its files are damaged.
    """
    description = folder / DESCRIPTION
    if not description.exists():
        return None
    if read_json(description) != {"format_version": FORMAT_VERSION, **identity}:
        return None
    phrases = list(read_lines(folder / PHRASES))
    try:
        vectors = np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise _damaged(folder, str(error)) from error
    if vectors.ndim != 2 or len(vectors) != len(phrases):
        raise _damaged(folder, f"{len(phrases)} phrases for vectors of shape {vectors.shape}")
    return KeptVectors(phrases, cast(NDArray[np.float32], vectors))


def _damaged(folder: Path, found: str) -> InputError:
    return InputError(
        folder / VECTORS, None, found, "one vector for each phrase", "Remove the folder"
    )
