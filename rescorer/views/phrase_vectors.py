"""Phrases of a table and their vectors, encoded or kept in a folder; nearest vectors by cosine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import read_json, write_json
from moses_bridge.base.lock import held_directory
from moses_bridge.base.progress import Progress, print_note, track_blocks
from moses_bridge.base.textio import StrPath, open_write, read_lines, write_lines
from moses_bridge.formats.phrase_table import read_blocks
from moses_bridge.formats.words import split_words
from rescorer.contract.architectures import Summaries
from rescorer.contract.choices import Side
from rescorer.contract.vocabulary import Vocabulary

ROWS_AT_ONCE = 50_000


def distinct_phrases(table: StrPath, side: Side) -> list[bytes]:
    """The distinct phrases of a column in the order of their bytes, words separated by one blank.

    In that order phrases with the same beginning are adjacent, as the encoder needs them. Empty
    targets are left out.

    Raises:
        InputError: a row is malformed, or there is no phrase.
    """
    found: set[bytes] = set()
    for block in track_blocks(read_blocks(table, ROWS_AT_ONCE), "read phrases", table):
        found.update(block.sources if side == "source" else block.targets)
    phrases = {b" ".join(split_words(phrase)) for phrase in found} - {b""}
    if not phrases:
        raise InputError(table, None, f"no {side} phrase", "rows with one")
    return sorted(phrases)


def known_phrases(phrases: Sequence[bytes], vocabulary: Vocabulary, table: StrPath) -> list[bytes]:
    """The phrases with all words in a shortlist; prints their number on standard error.

    A network takes all other words for one, so different phrases with them would be equal.

    Raises:
        InputError: there is none: the table is of other languages, say.
    """
    known = list[bytes]()
    for first in range(0, len(phrases), ROWS_AT_ONCE):
        part = phrases[first : first + ROWS_AT_ONCE]
        known += [part[row] for row in np.flatnonzero(vocabulary.n_unknown(part) == 0).tolist()]
    if not known:
        expected = "phrases of the language that the model reads"
        hint = "Name the other column with --side, or the table that the model was trained on"
        raise InputError(table, None, "no phrase whose words the model knows", expected, hint)
    print_note(f"{len(known):,} of {len(phrases):,} phrases have only words that the model knows")
    return known


def unknown_words(phrase: bytes, vocabulary: Vocabulary) -> list[bytes]:
    """The words of a phrase outside a shortlist."""
    words = split_words(phrase)
    ids = vocabulary.encode_words(words)
    return [
        word for word, number in zip(words, ids, strict=True) if number == vocabulary.unknown_id
    ]


class Nearest(NamedTuple):
    """Rows of the best candidates of a query, best first (equal ones in order), and cosines, -1 to 1."""

    rows: NDArray[np.int64]
    cosines: NDArray[np.float32]


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows divided by their lengths; a row of zeros is kept, so its cosines are 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)


def nearest(
    queries: NDArray[np.float32], blocks: Iterable[NDArray[np.float32]], n_best: int
) -> list[Nearest]:
    """The at most n_best candidates of highest cosine for each query, *Shape:* (n_queries, d).

    The blocks are runs of candidates, each *Shape:* (n, d), divided by their lengths as by `unit_rows`; one
    of them and the best candidates so far are in memory.
    """
    directions = unit_rows(queries)
    best = [Nearest(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
    first = 0
    for block in blocks:
        rows = np.arange(first, first + len(block))
        cosines = directions @ block.T
        best = [
            _merged(old, Nearest(rows, new), n_best) for old, new in zip(best, cosines, strict=True)
        ]
        first += len(block)
    return best


def _merged(one: Nearest, other: Nearest, n_best: int) -> Nearest:
    """The best of both; the rows of the first come before those of the other."""
    rows, cosines = (
        np.concatenate([one.rows, other.rows]),
        np.concatenate([one.cosines, other.cosines]),
    )
    if len(rows) > n_best:
        # All as good as the last one stay until the sort, so that ties keep the order of candidates.
        worst = np.partition(cosines, -n_best)[-n_best]
        rows, cosines = rows[cosines >= worst], cosines[cosines >= worst]
    order = np.argsort(-cosines, kind="stable")[:n_best]
    return Nearest(rows[order], cosines[order])


# Phrases encoded, or compared, at once: 16 MB of vectors of the paper's 1,000 units.
PHRASES_AT_ONCE = 4096
VECTORS, PHRASES, DESCRIPTION = "vectors.npy", "phrases.txt", "phrases.json"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class KeptVectors:
    """Phrases in a folder, and the directions of their summaries, *Shape:* (n, d).

    The vectors have length 1, and are read from the disk when needed.
    """

    phrases: list[bytes]
    vectors: NDArray[np.float32]

    def blocks(self) -> Iterator[NDArray[np.float32]]:
        """The vectors in runs of rows."""
        for first in range(0, len(self.vectors), PHRASES_AT_ONCE):
            yield np.asarray(self.vectors[first : first + PHRASES_AT_ONCE])


def encoded_blocks(phrases: Sequence[bytes], summaries: Summaries) -> Iterator[NDArray[np.float32]]:
    """The directions of the phrases' summaries, rows of length 1, in runs of rows.

    It is quickest with phrases in an order that puts the same beginnings together.
    """
    with Progress("encode phrases", len(phrases), "phrases") as progress:
        for first in range(0, len(phrases), PHRASES_AT_ONCE):
            block = phrases[first : first + PHRASES_AT_ONCE]
            yield unit_rows(summaries(block))
            progress.update(len(block))


def keep_vectors(
    folder: Path, identity: dict[str, Any], phrases: Sequence[bytes], summaries: Summaries
) -> None:
    """Encode phrases and write them with their vectors into a folder; the description comes last.

    The folder is made if missing; with another identity of model and table it is not used again.

    Raises:
        UserError: another command writes into the folder.
    """
    with held_directory(folder):
        (folder / DESCRIPTION).unlink(missing_ok=True)
        with open_write(folder / VECTORS) as stream:
            for number, block in enumerate(encoded_blocks(phrases, summaries)):
                if number == 0:
                    header = {"descr": "<f4", "fortran_order": False}
                    shape = (len(phrases), block.shape[1])
                    np.lib.format.write_array_header_1_0(stream, {**header, "shape": shape})
                stream.write(block.astype("<f4").tobytes())
        write_lines(folder / PHRASES, list(phrases))
        write_json(folder / DESCRIPTION, {"format_version": FORMAT_VERSION, **identity})


def kept_vectors(folder: Path, identity: dict[str, Any]) -> KeptVectors | None:
    """The content written by `keep_vectors` for the same model and table; None if there is none.

    Raises:
        InputError: the folder is for them, but its files are damaged.
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
