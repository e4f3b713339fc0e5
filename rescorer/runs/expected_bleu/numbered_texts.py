"""Sentences and their references as numbers of words, in mapped files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import temporary_arrays
from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.textio import StrPath, read_parallel
from moses_bridge.compiled.kept_code import njit
from moses_bridge.compiled.lexicon import Lexicon, LexiconTables, add_word
from moses_bridge.compiled.scanning import line_end, next_token
from rescorer.runs.expected_bleu.hypothesis_blocks import Texts

SENTENCES_AT_ONCE = 1000


def numbered_texts(paths: Sequence[StrPath], lexicon: Lexicon) -> Texts:
    """Number the words of texts that are parallel, the source first.

    The numbers are in anonymous files, deleted with the arrays; the system reads them on demand.

    Raises:
        InputError: a text has fewer lines than another.
        OSError: the disk is full.
    """
    with temporary_arrays() as files:
        numbers, starts, n_words = files.new(np.int32), files.new(np.int64), 0
        starts.append(np.zeros(1, np.int64))
        for block in blocks_of(read_parallel(*paths), SENTENCES_AT_ONCE):
            words, lens = number_lines([line for lines in block for line in lines], lexicon)
            numbers.append(words)
            starts.append(n_words + np.cumsum(lens))
            n_words += len(words)
        return Texts(numbers.mapped(), starts.mapped(), len(paths))


def number_lines(
    lines: Sequence[bytes], lexicon: Lexicon
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Numbers of the words of lines, one line after the other, *Shape:* (n_words,), and words of each, (n,)."""
    text = b"".join(line + b"\n" for line in lines)
    lexicon.make_room(len(text))
    words, lens = np.empty(len(text), np.int32), np.empty(len(lines), np.int64)
    n_words = _number(np.frombuffer(text, np.uint8), lexicon.tables, words, lens)
    return words[:n_words], lens


@njit(nogil=True)
def _number(text: Any, lexicon: LexiconTables, words: Any, lens: Any) -> int:
    at = n_words = 0
    for line in range(len(lens)):
        end, before = line_end(text, at), n_words
        token, at = next_token(text, at, end)
        while token < at:
            words[n_words] = add_word(lexicon, text, token, at)
            n_words += 1
            token, at = next_token(text, at, end)
        lens[line] = n_words - before
        at = end + 1
    return n_words
