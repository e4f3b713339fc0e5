"""Reads n-best lists with segmentation for expected BLEU, piece by piece, in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import temporary_arrays
from moses_bridge.base.blocks import blocks_of, read_whole_lines
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.compiled.lexicon import Lexicon, LexiconTables, add_word
from moses_bridge.base.compiled.scanning import line_end, next_token
from moses_bridge.base.errors import InputError
from moses_bridge.base.progress import LineProgress
from moses_bridge.base.text_lines import read_parallel
from moses_bridge.base.textio import StrPath
from moses_bridge.formats.nbest import parse_entry, parse_segmentation, without_escaped_bars
from rescorer.contract.numbered_phrases import NumberedWords
from rescorer.runs.expected_bleu.hypothesis_blocks import (
    N_HYPOTHESES,
    Hypothesis,
    Texts,
    new_block,
    new_hypothesis,
    read_hypotheses,
)
from rescorer.runs.expected_bleu.nbest_lists import StoredLists, StoredRuns

SENTENCES_AT_ONCE = 1000
NOWHERE = -1
SAME_TEXT = "Is this the text that was translated?"


def numbered_texts(paths: Sequence[StrPath], lexicon: Lexicon) -> Texts:
    """Number the words of parallel texts, the source first, in anonymous files deleted with the arrays.

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
    """Numbers of the words of all lines, (n_words,), and the number of words of each line, (n,)."""
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


def read_lists(
    nbest: StrPath, source: StrPath, references: Sequence[StrPath], groups: StrPath | None = None
) -> StoredLists:
    """Read an n-best list with segmentation.

    A total is the list's own, so the other features have the weights that made the list. A word copied by
    the search counts as a phrase pair, though no table has it: all hypotheses of a sentence have it.

    Args:
        nbest: ids need not be contiguous.
        source: the translated text, id 0 first.
        references: its translations, one file a reference.
        groups: the document of each of its lines, an empty line for none.

    Raises:
        InputError: an entry is malformed, lacks a segmentation or has an id or phrase outside the source;
            the texts differ in length; or there is no entry.
        OSError: the disk is full.
    """
    lexicon = Lexicon()
    texts = numbered_texts([source, *references], lexicon)
    documents = None if groups is None else _documents(groups, source)
    with temporary_arrays() as files:
        runs = StoredRuns(files.new(np.int32))
        _ListReader(nbest, texts, lexicon, runs).read()
        numbers, sentences, ends = runs.read()
    if not len(sentences):
        raise InputError(nbest, None, "no hypothesis", "an n-best list")
    order = np.argsort(sentences, kind="stable")
    translated, starts = np.unique(sentences[order], return_index=True)
    return StoredLists(
        NumberedWords(lexicon.words()),
        numbers,
        np.column_stack([np.append(0, ends[:-1]), ends])[order],
        np.append(starts, len(order)),
        None if documents is None else documents[translated],
    )


def _documents(groups: StrPath, source: StrPath) -> NDArray[np.int64]:
    """Document number of each line, -1 for none, *Shape:* (n_lines,)."""
    numbers = {b"": -1}
    names = (name for name, _ in read_parallel(groups, source))
    return np.fromiter((numbers.setdefault(name, len(numbers)) for name in names), np.int64)


class _ListReader:
    """Reads a list into runs; new words are added to the lexicon."""

    def __init__(self, path: StrPath, texts: Texts, lexicon: Lexicon, runs: StoredRuns) -> None:
        self._path, self._texts, self._lexicon, self._runs = path, texts, lexicon, runs
        self._block, self._room = new_block(0, 0), new_hypothesis(0)
        self._n_lines = 0

    def read(self) -> None:
        """Read all lines."""
        with LineProgress("read n-best list", self._path, "hypotheses") as progress:
            for piece in read_whole_lines(self._path):
                self._make_room(len(piece))
                n_lines = self._n_lines
                self._read_piece(piece)
                self._store()
                progress.update(self._n_lines - n_lines)

    def _make_room(self, n_bytes: int) -> None:
        self._lexicon.make_room(n_bytes)
        if n_bytes > len(self._block.words):
            self._block, self._room = new_block(n_bytes, n_bytes), new_hypothesis(n_bytes)

    def _read_piece(self, piece: bytes) -> None:
        """Read whole lines; those that compiled code cannot judge are read one by one."""
        text, at, given, given_at = np.frombuffer(piece, np.uint8), 0, self._room, NOWHERE
        while True:
            room = given if at == given_at else self._room
            tables, block = self._lexicon.tables, self._block
            at, n_wanted = read_hypotheses(text, at, room, self._texts, tables, block)
            if at == len(text):
                return
            if n_wanted:
                self._store()
                if n_wanted > len(block.words):
                    self._block = new_block(len(block.words), n_wanted)
            else:
                line = piece[at : piece.index(b"\n", at)]
                given, given_at = self._given(line), at

    def _store(self) -> None:
        self._n_lines += int(self._block.sizes[N_HYPOTHESES])
        self._runs.append(self._block)

    def _given(self, line: bytes) -> Hypothesis:
        line_number = self._n_lines + int(self._block.sizes[N_HYPOTHESES]) + 1
        entry = parse_entry(line, self._path, line_number)
        n_sentences = (len(self._texts.starts) - 1) // self._texts.n_texts
        if entry.sentence_id >= n_sentences:
            expected = f"an id below {n_sentences}, the number of sentences"
            fault = f"the sentence id {entry.sentence_id}"
            raise InputError(self._path, line_number, fault, expected, SAME_TEXT)
        words, _ = number_lines([without_escaped_bars(entry.words)], self._lexicon)
        segments = parse_segmentation(entry, len(words), self._path)
        first = entry.sentence_id * self._texts.n_texts
        n_source = int(self._texts.starts[first + 1] - self._texts.starts[first])
        for start, end, _, _ in segments:
            if not 0 <= start < end <= n_source:
                fault = f"the source words {start} to {end - 1}"
                expected = f"words of its sentence, which has {n_source}"
                raise InputError(self._path, line_number, fault, expected, SAME_TEXT)
        self._room.words[: len(words)] = words
        self._room.segments[: len(segments)] = segments
        return self._room._replace(
            is_given=True,
            sentence_id=entry.sentence_id,
            total=entry.total,
            n_words=len(words),
            n_segments=len(segments),
        )
