"""Text to training data: sentences, and sentences with their sources and word links.

Encoded sentences are in anonymous mapped files, deleted with the arrays, in the directory of temporary files
(TMPDIR); the system reads them on demand.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import parts, temporary_arrays
from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.errors import InputError
from moses_bridge.base.text_lines import read_parallel, read_text_lines
from moses_bridge.base.textio import StrPath, named_errors
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Vocabulary

PIECE_BYTES = 1 << 20  # are read and written together
SENTENCES_AT_ONCE = 10_000  # are encoded together: some 20 MB


class SpilledLines:
    """Lines in an anonymous file in TMPDIR, deleted with the object; can be read repeatedly."""

    def __init__(self) -> None:
        self._file, path = tempfile.mkstemp()
        os.unlink(path)
        weakref.finalize(self, os.close, self._file)
        self._waiting = bytearray()
        self._n_bytes = 0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, line: bytes) -> None:
        r"""Append a line without "\n".

        Raises:
            OSError: the disk is full.
        """
        self._waiting += line + b"\n"
        self._length += 1
        if len(self._waiting) >= PIECE_BYTES:
            self._flush()

    def _flush(self) -> None:
        data = bytes(self._waiting)
        self._waiting.clear()
        while data:
            with named_errors(tempfile.gettempdir()):
                n_written = os.pwrite(self._file, data, self._n_bytes)
            self._n_bytes += n_written
            data = data[n_written:]

    def __iter__(self) -> Iterator[bytes]:
        """The lines without their "\\n"."""
        self._flush()
        place, rest = 0, b""
        while place < self._n_bytes:
            piece = os.pread(self._file, PIECE_BYTES, place)
            place += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines


@dataclass(frozen=True)
class ParallelText:
    """Sentence pairs without those with an empty side, and their links in Pharaoh format; None if not read."""

    sources: SpilledLines
    targets: SpilledLines
    links: SpilledLines | None

    def content(self) -> Iterator[bytes]:
        """The whole content as bytes."""
        yield from self.sources
        yield from self.targets
        yield from self.links or ()


def read_text(path: StrPath) -> SpilledLines:
    """The sentences of a text, without empty lines.

    Raises:
        InputError: there is none.
        OSError: the disk is full.
    """
    sentences = SpilledLines()
    for line in read_text_lines(path):
        if line.strip():
            sentences.append(line)
    if not len(sentences):
        raise InputError(path, None, "no sentence", "target text, one sentence a line")
    return sentences


def read_parallel_text(data: Data) -> ParallelText:
    """The sentence pairs of two texts, with their links if a file of links is given.

    Raises:
        InputError: the files differ in their number of lines, or no pair is left.
        OSError: the disk is full.
    """
    paths = [path for path in (data.source, data.path, data.links) if path is not None]
    sides = [SpilledLines() for _ in paths]
    for row in read_parallel(*paths):
        if row[0].strip() and row[1].strip():
            for side, line in zip(sides, row, strict=True):
                side.append(line)
    if not len(sides[0]):
        raise InputError(data.path, None, "no sentence pair", "parallel text, one sentence a line")
    return ParallelText(sides[0], sides[1], sides[2] if data.links is not None else None)


def columns_of(rows: Iterable[tuple[bytes, ...]]) -> Iterator[list[list[bytes]]]:
    """The columns of blocks of rows."""
    for block in blocks_of(rows, SENTENCES_AT_ONCE):
        yield [list(column) for column in zip(*block, strict=True)]


def mapped_text(
    vocabulary: Vocabulary, sentences: Iterable[bytes]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """As `Vocabulary.encode_text`, in anonymous files, deleted with the arrays; OSError if the disk is full."""
    with temporary_arrays() as files:
        ids, lens = files.new(np.int32), files.new(np.int64)
        for block in blocks_of(sentences, SENTENCES_AT_ONCE):
            some_ids, some_lens = vocabulary.encode_text(block)
            ids.append(some_ids)
            lens.append(some_lens)
        return ids.mapped(), lens.mapped()


def mapped_phrases(
    vocabulary: Vocabulary, sentences: Iterable[bytes]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """As `Vocabulary.encode_phrases`, in anonymous files, deleted with the arrays.

    Raises:
        OSError: the disk is full.
    """
    flat, lens = mapped_text(vocabulary, sentences)
    width = int(lens.max(initial=0)) + 1
    with temporary_arrays() as files:
        ids, n_before = files.new(np.int32), 0
        for first, end in parts(len(lens), SENTENCES_AT_ONCE):
            some = np.full((end - first, width), vocabulary.end_id, np.int32)
            n_words = int(lens[first:end].sum())
            inside = np.arange(width) < lens[first:end, None]
            some[inside] = flat[n_before : n_before + n_words]
            ids.append(some.ravel())
            n_before += n_words
        return ids.mapped().reshape(-1, width), lens
