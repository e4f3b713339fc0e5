"""Encoded sentences in mapped files."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import parts, temporary_arrays
from moses_bridge.base.blocks import blocks_of
from rescorer.contract.vocabulary import Vocabulary
from rescorer.training.text import SENTENCES_AT_ONCE


def mapped_text(
    vocabulary: Vocabulary, sentences: Iterable[bytes]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """As `Vocabulary.encode_text`, in anonymous files, deleted with the arrays.

    The files are in the directory of temporary files (TMPDIR); the system reads them on demand.

    Raises:
        OSError: the disk is full.
    """
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
