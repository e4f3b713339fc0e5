"""Distinct phrase pairs in files: the content of a cache of a phrase table."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.lexicon import Lexicon
from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import check_plain_file, open_record_of, read_json, write_json
from moses_bridge.base.progress import Progress
from moses_bridge.base.textio import StrPath
from rescorer.training.pairs.phrase_pairs import PairChoice, spill_rows
from rescorer.training.pairs.record_spill import N_PARTS, PairColumns, RecordSpill, distinct_pairs
from rescorer.training.word_counts import WordCounts, WordList

HEADER_NAME = "pairs.json"
FORMAT = 1
# Little-endian on every machine, so that a cache may be carried to another one.
COLUMN_TYPES: Mapping[str, str] = {
    "first_rows": "<i8",
    "source_lens": "<u2",
    "source_words": "<u4",
    "n_targets": "<u4",
    "target_lens": "<u2",
    "target_words": "<u4",
    "counts": "<f8",
}
WORDS, WORD_ENDS, SOURCE_COUNTS, TARGET_COUNTS = (
    "words",
    "word_ends",
    "source_counts",
    "target_counts",
)
WORD_TYPE = "<i8"
REMOVE = "Remove the directory: it is damaged"
BYTES_OF_DIGEST = 16
MOST_NUMBERS = 2**40  # of a column: more than any disk has, and no sum of them overflows


@dataclass(frozen=True)
class _Header:
    """The required part of a header."""

    n_words: int
    digest: str
    parts: list[list[int]]
    choice: dict[str, Any] = field(default_factory=dict)


def write_pairs(
    table: StrPath, choice: PairChoice, identity: Mapping[str, Any], directory: Path
) -> None:
    """Read a phrase table once and write the distinct pairs of chosen rows, by source, into an empty directory.

    The identity describes table and choice in the header.

    Raises:
        InputError: a row is malformed, a needed number is missing, or no pair is left.
        OSError: the disk is full.
    """
    lexicon = Lexicon()
    with tempfile.TemporaryFile(dir=directory) as file:
        spill = RecordSpill(cast(BinaryIO, file))
        n_rows = spill_rows(table, choice, lexicon, spill)
        writer = _Writer(directory, len(lexicon))
        with Progress("find distinct pairs", N_PARTS, "parts") as progress:
            for number in spill.parts():
                writer.append(distinct_pairs(*spill.part(number)), choice.with_counts)
                progress.update()
    if not writer.n_pairs:
        raise InputError(
            table,
            None,
            "no phrase pair",
            f"pairs of at most {choice.max_phrase_words} words and p(target | source) of "
            f"{choice.min_prob:g} or more",
        )
    writer.finish(lexicon, {**identity, "n_rows": n_rows})


class _Writer:
    def __init__(self, directory: Path, n_words: int) -> None:
        self.directory = directory
        self.n_pairs = 0
        self._counts = np.zeros((2, n_words), np.int64)
        self._sizes: list[list[int]] = []
        self._digests = _new_digests()
        for name in COLUMN_TYPES:
            (directory / name).touch()

    def append(self, columns: PairColumns, with_counts: bool) -> None:
        """Write the pairs of a part, and count their words."""
        add_counts(self._counts, columns)
        kept = columns if with_counts else columns._replace(counts=np.empty(0))
        for name, column in kept._asdict().items():
            data = memoryview(column.astype(COLUMN_TYPES[name], copy=False)).cast("B")
            self._digests[name].update(data)
            with (self.directory / name).open("ab") as file:
                file.write(data)
        self._sizes.append([len(column) for column in kept])
        self.n_pairs += len(columns.target_lens)

    def finish(self, lexicon: Lexicon, header: Mapping[str, Any]) -> None:
        """Write the words and the header."""
        text = b"".join(word + b"\n" for word in lexicon.words())
        lens = (lexicon.tables.ends - lexicon.tables.starts)[: len(lexicon)]
        (self.directory / WORDS).write_bytes(text)
        self._write(WORD_ENDS, np.cumsum(lens + 1) - 1)
        self._write(SOURCE_COUNTS, self._counts[0])
        self._write(TARGET_COUNTS, self._counts[1])
        digest = _digest(self._digests, text)
        sizes = {"n_words": len(lexicon), "digest": digest, "parts": self._sizes}
        write_json(self.directory / HEADER_NAME, {"format": FORMAT, **header, **sizes})

    def _write(self, name: str, numbers: NDArray[np.int64]) -> None:
        (self.directory / name).write_bytes(numbers.astype(WORD_TYPE).tobytes())


def _new_digests() -> dict[str, blake2b]:
    """One of each column, to be updated part by part."""
    return {name: blake2b(digest_size=BYTES_OF_DIGEST) for name in COLUMN_TYPES}


def _digest(columns: Mapping[str, blake2b], text: bytes) -> str:
    digest = blake2b(text, digest_size=BYTES_OF_DIGEST)
    for column in columns.values():
        digest.update(column.digest())
    return digest.hexdigest()


class PairFiles:
    """Distinct phrase pairs in the files of `write_pairs`, in parts by the hash of their sources.

    They stay readable after the directory is removed. n_pairs are those of each part, *Shape:* (n_parts,),
    the words those of both sides by number, the digest is of all pairs and words.

    Raises:
        InputError: the directory has no pairs or is damaged.
    """

    def __init__(self, directory: Path) -> None:
        self.header = read_header(directory)
        self.digest = str(self.header["digest"])
        self._sizes = np.array(self.header["parts"], np.int64)
        self.n_pairs = self._sizes[:, PairColumns._fields.index("target_lens")]
        totals = self._sizes.sum(axis=0)
        self._starts = np.cumsum(self._sizes, axis=0) - self._sizes
        n_word_bytes = self.header["n_words"] * np.dtype(WORD_TYPE).itemsize
        for name in (WORD_ENDS, SOURCE_COUNTS, TARGET_COUNTS):
            _check_size(directory / name, n_word_bytes)
        self._files = []
        for name, kind, total in zip(
            PairColumns._fields, COLUMN_TYPES.values(), totals, strict=True
        ):
            _check_size(directory / name, int(total) * np.dtype(kind).itemsize)
            self._files.append(_opened(directory / name, self))
        ends = np.fromfile(directory / WORD_ENDS, WORD_TYPE)
        _check_size(directory / WORDS, int(ends[-1]) + 1)
        self._directory = directory
        self.words = WordList((directory / WORDS).read_bytes(), ends)
        self._counts = [
            np.fromfile(directory / name, WORD_TYPE) for name in (SOURCE_COUNTS, TARGET_COUNTS)
        ]

    def word_counts(self) -> tuple[WordCounts, WordCounts]:
        """How often each word occurs in the distinct sources and in the targets of all pairs."""
        source, target = (WordCounts.among(self.words, counts) for counts in self._counts)
        return source, target

    def part(self, number: int) -> PairColumns:
        """The pairs of a part; counts are 1 if none were read."""
        columns = self._stored(number)
        has_counts = len(columns.counts) == len(columns.target_lens)
        return columns if has_counts else columns._replace(counts=np.ones(len(columns.target_lens)))

    def parts(self) -> Iterator[PairColumns]:
        """The pairs of each part."""
        for number in range(len(self._sizes)):
            yield self.part(number)

    def verify(self) -> None:
        """Read all files once and compare them with the digest: a disk may have changed them.

        Compiled code uses word numbers and phrase lengths unchecked.

        Raises:
            InputError: a file is damaged.
        """
        digests, counts = _new_digests(), np.zeros((2, len(self.words)), np.int64)
        for number in range(len(self._sizes)):
            columns = self._stored(number)
            _check_part(columns, len(self.words), self._directory)
            for name, column in columns._asdict().items():
                digests[name].update(memoryview(column).cast("B"))
            add_counts(counts, columns)
        text = self.words.text
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        is_same = np.array_equal(ends, self.words.ends) and np.array_equal(counts, self._counts)
        if not is_same or _digest(digests, text) != self.digest:
            raise _changed(self._directory)

    def _stored(self, number: int) -> PairColumns:
        kinds = COLUMN_TYPES.values()
        return PairColumns(*(self._read(place, kind, number) for place, kind in enumerate(kinds)))

    def _read(self, column: int, kind: str, number: int) -> NDArray[Any]:
        n_bytes = np.dtype(kind).itemsize
        size, start = (int(of[number, column]) * n_bytes for of in (self._sizes, self._starts))
        return np.frombuffer(os.pread(self._files[column], size, start), kind)


def add_counts(counts: NDArray[np.int64], columns: PairColumns) -> None:
    """Count the words of some pairs' sources and targets, *Shape:* (2, n_words)."""
    for own, words in zip(counts, (columns.source_words, columns.target_words), strict=True):
        own += np.bincount(words, minlength=len(own))


def read_header(directory: Path) -> dict[str, Any]:
    """Read the header of a directory of phrase pairs; InputError if it is no such directory."""
    path = directory / HEADER_NAME
    header = read_json(path) if path.exists() else None
    if not isinstance(header, dict) or header.get("format") != FORMAT or not header.get("parts"):
        found = "another format" if path.exists() else f"no {HEADER_NAME}"
        raise InputError(
            directory,
            None,
            found,
            "phrase pairs that a training has stored, or an empty directory",
            "Name another directory",
        )
    found_header = open_record_of(_Header, header, path, "the header of phrase pairs", REMOVE)
    if not found_header.n_words or not all(map(_are_sizes, found_header.parts)):
        raise InputError(path, None, "sizes that no pairs have", "those of its files", REMOVE)
    return header


def _are_sizes(sizes: list[int]) -> bool:
    return len(sizes) == len(COLUMN_TYPES) and all(0 <= size < MOST_NUMBERS for size in sizes)


def _check_part(columns: PairColumns, n_words: int, directory: Path) -> None:
    sums: list[tuple[NDArray[Any], NDArray[Any]]] = [
        (columns.source_lens, columns.source_words),
        (columns.n_targets, columns.target_lens),
        (columns.target_lens, columns.target_words),
    ]
    fits = len(columns.first_rows) == len(columns.source_lens) == len(columns.n_targets)
    fits = fits and len(columns.counts) in (0, len(columns.target_lens))
    fits = fits and all(int(lens.sum(dtype=np.int64)) == len(inner) for lens, inner in sums)
    words = (columns.source_words, columns.target_words)
    if not fits or any(len(each) and int(each.max()) >= n_words for each in words):
        raise _changed(directory)


def _changed(directory: Path) -> InputError:
    found = "other pairs or words than were written"
    return InputError(directory, None, found, "phrase pairs as a training has stored them", REMOVE)


def _check_size(path: Path, n_bytes: int) -> None:
    check_plain_file(path)
    found = path.stat().st_size if path.exists() else 0
    if found != n_bytes:
        raise InputError(path, None, f"{found:,} bytes", f"{n_bytes:,}", REMOVE)


def _opened(path: Path, owner: object) -> int:
    handle = os.open(path, os.O_RDONLY)
    weakref.finalize(owner, os.close, handle)
    return handle
