"""What the files of a model are in memory, kept on disk for the next command that loads the same files.

A file of the directory is a series of NumPy arrays. Its name is a digest of the model's files, of what the ini
says of them and of the code that reads them, so it never stands for anything else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

import moses_bridge
from moses_bridge.base.textio import open_write_packed
from moses_bridge.builtin.decoder.loaded_table import LoadedTable, TableFile, TableRows
from moses_bridge.builtin.decoder.source_trie import TrieTables
from moses_bridge.builtin.language_model.lm_index import LmIndex, LmTables
from moses_bridge.compiled.lexicon import LexiconTables

READERS = ("builtin/decoder", "builtin/language_model", "compiled", "formats")
NAME = "model-{}.arrays"


class ModelFiles(NamedTuple):
    """The files of a model in memory.

    Attributes:
        lms: the language models.
        target_words: bytes of each target word; those of the first language model come first.
        table: the phrase tables.
        reordering: (n_rows, 6) natural logarithms.
    """

    lms: tuple[LmIndex, ...]
    target_words: list[bytes]
    table: LoadedTable
    reordering: NDArray[np.float32]


def stored_files(
    cache: Path | None,
    paths: Sequence[Path],
    said: object,
    tables: Sequence[TableFile],
    read: Callable[[], ModelFiles],
) -> ModelFiles:
    """The files of a model, from the directory if they are there, else read and put there.

    Several processes may do so at once. A file that is damaged is made anew.

    Args:
        cache: the directory; None to read the files.
        paths: the files.
        said: what the ini says of them, as a value whose repr tells it from others.
        tables: the phrase tables.
        read: reads the files.

    Raises:
        OSError: the directory cannot be written.
    """
    if cache is None or not all(path.is_file() for path in paths):
        return read()
    key = _digest(paths, said)
    stored = cache / NAME.format(key)
    try:
        with stored.open("rb") as file:
            return _read_arrays(file, tables)
    except (OSError, ValueError, EOFError):
        files = read()
    if _digest(paths, said) == key:  # else they were written to meanwhile
        with open_write_packed(stored) as file:
            for array in _arrays(files):
                np.save(file, array, allow_pickle=False)
    return files


def _digest(paths: Sequence[Path], said: object) -> str:
    root = Path(moses_bridge.__file__).parent
    code = (path for reader in READERS for path in sorted((root / reader).rglob("*.py")))
    digest = hashlib.sha256(repr(said).encode())
    for path in (*code, *paths):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:32]


def _arrays(files: ModelFiles) -> Iterator[NDArray[Any]]:
    """All arrays, in the order in which `_read_arrays` takes them."""
    yield np.array([len(files.lms)])
    for lm in files.lms:
        yield from _of_words([*lm.vocabulary])
        yield np.array([*lm.vocabulary.values()])
        yield np.array([lm.order, lm.tables.n_words, lm.tables.mask, lm.tables.has_codes])
        yield lm.tables.entries
    yield from _of_words(files.target_words)
    table = files.table
    yield from (table.first_rows, *table.rows, *table.trie, *table.source_words)
    yield from (table.node_starts, table.node_rows, files.reordering)


def _read_arrays(file: BinaryIO, tables: Sequence[TableFile]) -> ModelFiles:
    """The files of a model from their arrays.

    Raises:
        ValueError, EOFError: the file is damaged.
    """
    array = partial(np.load, file, allow_pickle=False)
    (n_lms,) = array()
    lms = tuple(_lm(array) for _ in range(n_lms))
    target_words = _words(array)
    table = LoadedTable(
        files=tuple(tables),
        first_rows=array(),
        rows=TableRows(*(array() for _ in TableRows._fields)),
        trie=TrieTables(*(array() for _ in TrieTables._fields)),
        source_words=LexiconTables(*(array() for _ in LexiconTables._fields)),
        node_starts=array(),
        node_rows=array(),
    )
    return ModelFiles(lms, target_words, table, array())


def _lm(array: Callable[[], NDArray[Any]]) -> LmIndex:
    vocabulary = dict(zip(_words(array), array().tolist(), strict=True))
    order, n_words, mask, has_codes = array().tolist()
    entries = array()
    tables = LmTables(
        entries, entries.view(np.float32), entries.view(np.int32), n_words, mask, bool(has_codes)
    )
    return LmIndex.of_tables(order, vocabulary, tables)


def _of_words(words: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The text of words, and where each ends."""
    ends = np.cumsum([len(word) for word in words], dtype=np.int64)
    return np.frombuffer(b"".join(words), np.uint8), ends


def _words(array: Callable[[], NDArray[Any]]) -> list[bytes]:
    text, ends = array().tobytes(), array().tolist()
    return [text[start:end] for start, end in pairwise((0, *ends))]
