"""N-best lists as what an expected BLEU is made of: phrase pairs, the other features' totals, sentence BLEU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.line_progress import track_lines
from moses_bridge.base.textio import StrPath, read_parallel
from moses_bridge.formats.nbest import (
    NBestEntry,
    parse_segmentation,
    read_nbest,
    without_escaped_bars,
)
from moses_bridge.formats.words import split_words
from rescorer.contract.batch import Batch
from rescorer.runs.expected_bleu.sentence_bleu import SentenceReferences

SAME_TEXT = "Is this the text that was translated?"


@dataclass(frozen=True)
class NBestLists:
    """Hypotheses, those of a sentence together, and the phrase pairs that they are made of.

    Attributes:
        pairs: the different phrase pairs of all hypotheses.
        uses: numbers of the phrase pairs of one hypothesis after the other, *Shape:* (n_uses,).
        n_uses: phrase pairs of each hypothesis, *Shape:* (n,).
        totals: weighted sum of the other features of each, *Shape:* (n,).
        bleu: sentence BLEU of each, 0 to 1, *Shape:* (n,).
        starts: first hypothesis of each list, and n at the end, *Shape:* (n_lists + 1,).
        documents: number of each list's document, -1 for none, *Shape:* (n_lists,); None if they are unknown.
    """

    pairs: Batch
    uses: NDArray[np.int64]
    n_uses: NDArray[np.int64]
    totals: NDArray[np.float64]
    bleu: NDArray[np.float64]
    starts: NDArray[np.int64]
    documents: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    def part(self, lists: NDArray[np.int64]) -> NBestLists:
        """Some of the lists, with all phrase pairs."""
        use_starts = np.append(0, np.cumsum(self.n_uses))
        spans = [slice(self.starts[number], self.starts[number + 1]) for number in lists]
        uses = [self.uses[use_starts[span.start] : use_starts[span.stop]] for span in spans]
        sizes = [span.stop - span.start for span in spans]
        return NBestLists(
            self.pairs,
            np.concatenate(uses),
            np.concatenate([self.n_uses[span] for span in spans]),
            np.concatenate([self.totals[span] for span in spans]),
            np.concatenate([self.bleu[span] for span in spans]),
            np.cumsum([0, *sizes]),
        )

    def content(self) -> Iterator[bytes]:
        """Bytes that identify these lists."""
        for phrases in (self.pairs.sources, self.pairs.targets):
            yield b"\n".join(phrases)
        for array in (self.uses, self.n_uses, self.totals, self.bleu, self.starts):
            yield array.tobytes()
        if self.documents is not None:
            yield self.documents.tobytes()


@dataclass
class _Hypotheses:
    """What has been read of one sentence's list: a row each of total, BLEU and numbers of phrase pairs."""

    references: SentenceReferences
    rows: list[tuple[float, float, list[int]]] = field(default_factory=list)


def read_lists(
    nbest: StrPath, source: StrPath, references: Sequence[StrPath], groups: StrPath | None = None
) -> NBestLists:
    """Read an n-best list with segmentation.

    A total is that of the list, so the other features' weights are those that it was made with. A word that the
    search left as it is counts as a phrase pair, though no table has it: all hypotheses of a sentence have it.

    Args:
        nbest: ids need not be contiguous.
        source: the translated text, id 0 first.
        references: its translations, one file a reference.
        groups: the document of each of its lines, an empty line for none.

    Raises:
        InputError: an entry is malformed, has no segmentation, or an id or a phrase outside the source; texts
            have other numbers of lines; or there is no entry.
    """
    lines = list(read_parallel(source, *references))
    documents = None if groups is None else _documents(groups, source)
    numbers: dict[tuple[bytes, bytes], int] = {}
    found: dict[int, _Hypotheses] = {}
    for entry in track_lines(read_nbest(nbest), "read n-best list", nbest, "hypotheses"):
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
    if not found:
        raise InputError(nbest, None, "no hypothesis", "an n-best list")
    sentences = sorted(found)
    joined = _joined([found[number].rows for number in sentences], numbers)
    return joined if documents is None else replace(joined, documents=documents[sentences])


def _documents(groups: StrPath, source: StrPath) -> NDArray[np.int64]:
    """The document of each line by number, -1 for none, *Shape:* (n_lines,)."""
    numbers = {b"": -1}
    names = (name for name, _ in read_parallel(groups, source))
    return np.fromiter((numbers.setdefault(name, len(numbers)) for name in names), np.int64)


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
