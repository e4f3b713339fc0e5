"""N-best lists read line by line: the plain path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from moses_bridge.base.errors import InputError
from moses_bridge.base.text_lines import read_parallel
from moses_bridge.base.textio import StrPath
from moses_bridge.formats.nbest import (
    NBestEntry,
    parse_segmentation,
    read_nbest,
    without_escaped_bars,
)
from moses_bridge.formats.words import split_words
from rescorer.contract.batch import Batch
from rescorer.runs.expected_bleu.list_reader import SAME_TEXT
from rescorer.runs.expected_bleu.nbest_lists import NBestLists
from tests.rescorer.runs.expected_bleu.plain_bleu import SentenceReferences


@dataclass
class _Hypotheses:
    """What has been read of one sentence's list: a row each of total, BLEU and numbers of phrase pairs."""

    references: SentenceReferences
    rows: list[tuple[float, float, list[int]]] = field(default_factory=list)


def plain_lists(nbest: StrPath, source: StrPath, references: Sequence[StrPath]) -> NBestLists:
    """All lists; see `list_reader.read_lists`."""
    lines = list(read_parallel(source, *references))
    numbers: dict[tuple[bytes, bytes], int] = {}
    found: dict[int, _Hypotheses] = {}
    for entry in read_nbest(nbest):
        if entry.sentence_id >= len(lines):
            expected = f"an id below {len(lines)}, the number of sentences"
            fault = f"the sentence id {entry.sentence_id}"
            raise InputError(nbest, entry.line_number, fault, expected, SAME_TEXT)
        sentence, *translations = lines[entry.sentence_id]
        if entry.sentence_id not in found:
            words = [split_words(translation) for translation in translations]
            found[entry.sentence_id] = _Hypotheses(SentenceReferences(words))
        found[entry.sentence_id].rows.append(
            _row(entry, sentence, found[entry.sentence_id].references, numbers, nbest)
        )
    return _joined([found[number].rows for number in sorted(found)], numbers)


def _row(
    entry: NBestEntry,
    sentence: bytes,
    references: SentenceReferences,
    numbers: dict[tuple[bytes, bytes], int],
    nbest: StrPath,
) -> tuple[float, float, list[int]]:
    """The total of an entry, its BLEU, and its phrase pairs by number; new ones get the next numbers."""
    words, source = split_words(without_escaped_bars(entry.words)), split_words(sentence)
    pairs = []
    for start, end, target_start, target_end in parse_segmentation(entry, len(words), nbest):
        if not 0 <= start < end <= len(source):
            fault = f"the source words {start} to {end - 1}"
            expected = f"words of its sentence, which has {len(source)}"
            raise InputError(nbest, entry.line_number, fault, expected, SAME_TEXT)
        pair = b" ".join(source[start:end]), b" ".join(words[target_start:target_end])
        pairs.append(numbers.setdefault(pair, len(numbers)))
    return entry.total, references.bleu(words), pairs


def _joined(
    lists: list[list[tuple[float, float, list[int]]]], numbers: dict[tuple[bytes, bytes], int]
) -> NBestLists:
    rows = [row for rows in lists for row in rows]
    return NBestLists(
        Batch([source for source, _ in numbers], [target for _, target in numbers]),
        np.array([pair for _, _, pairs in rows for pair in pairs], np.int64),
        np.array([len(pairs) for _, _, pairs in rows], np.int64),
        np.array([total for total, _, _ in rows]),
        np.array([bleu for _, bleu, _ in rows]),
        np.cumsum([0, *map(len, lists)]),
    )
