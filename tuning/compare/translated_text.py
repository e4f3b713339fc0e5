"""Translations of a text side by side, with the scores of each sentence and the words that differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.progress import Progress
from moses_bridge.base.text_lines import read_text_lines
from tuning.metrics.bleu import References, Statistics, bleu, log_sentence_bleu
from tuning.metrics.chrf import CHRF, ChrfReferences
from tuning.metrics.metric import read_references


@dataclass(frozen=True)
class Output:
    """One system's translation of one sentence, with its BLEU+1 and chrF, 0 to 100.

    Attributes:
        text: its words, separated by single blanks.
        gone: runs of words of the first system's text missing from this one.
        added: runs of words of this text missing from the first system's.
    """

    text: str
    bleu: float
    chrf: float
    gone: list[Span]
    added: list[Span]


@dataclass(frozen=True)
class TranslatedSentence:
    """One sentence of the text; its outputs are in the order of the systems."""

    source: str
    references: list[str]
    outputs: list[Output]


@dataclass(frozen=True)
class TranslatedText:
    """A text and its translations by several systems, which are compared with the first.

    The BLEU statistics have the *Shape:* (n_systems, n_sentences, 9).
    """

    systems: list[str]
    sentences: list[TranslatedSentence]
    statistics: Statistics

    @property
    def source_lens(self) -> list[int]:
        """Words of each source sentence."""
        return [len(sentence.source.split(" ")) for sentence in self.sentences]

    def bleu_of(self, system: int, chosen: NDArray[np.bool_]) -> float:
        """BLEU (0 to 100) of a system, by its place, on some of the sentences, *Shape:* (n_sentences,)."""
        return float(bleu(self.statistics[system][chosen].sum(axis=0)))


def read_translated_text(
    source: Path, references: Sequence[Path], outputs: Mapping[str, Path]
) -> TranslatedText:
    """Read the translations of a text by several systems, and score each sentence.

    All files are tokenised, one sentence a line. chrF counts no blanks, so that of tokens is that of the text
    but for escaped characters.

    Raises:
        InputError: a file is missing or has another number of lines.
    """
    counted = read_references(references, source)
    of_bleu = References(counted)
    statistics = np.array([of_bleu.output_statistics(path) for path in outputs.values()])
    of_sentences = 100 * np.exp([log_sentence_bleu(rows) for rows in statistics])
    chrf = _chrf_of(outputs.values(), ChrfReferences(counted))
    texts = [_words_of(path) for path in (source, *references, *outputs.values())]
    n_given = 1 + len(references)
    sentences = []
    with Progress("report: sentences", len(counted), "sentences") as progress:
        for number, lines in enumerate(zip(*texts, strict=True)):
            given, translated = lines[:n_given], lines[n_given:]
            scored = zip(translated, of_sentences[:, number], chrf[:, number], strict=True)
            made = [
                Output(" ".join(words), float(b), float(c), *changed_words(translated[0], words))
                for words, b, c in scored
            ]
            shown = [" ".join(words) for words in given]
            sentences.append(TranslatedSentence(shown[0], shown[1:], made))
            progress.update()
    return TranslatedText([*outputs], sentences, statistics)


def _chrf_of(outputs: Iterable[Path], references: ChrfReferences) -> NDArray[np.float64]:
    """ChrF of each line, *Shape:* (n_systems, n_sentences); where systems agree it is counted once."""
    rows: dict[tuple[int, bytes], int] = {}
    places = [
        [rows.setdefault(line, len(rows)) for line in enumerate(read_text_lines(path))]
        for path in outputs
    ]
    of_each: NDArray[np.float64] = CHRF.value(references.statistics(rows))[np.array(places)]
    return of_each


def _words_of(path: Path) -> list[list[str]]:
    lines = (line.decode("utf-8", "replace") for line in read_text_lines(path))
    return [[word for word in line.split(" ") if word] for line in lines]


Span = tuple[int, int]


def changed_words(old: Sequence[str], new: Sequence[str]) -> tuple[list[Span], list[Span]]:
    """Beginnings and ends of runs of words missing from the other text at this place: of old, and of new."""
    if old == new:
        return [], []
    # SequenceMatcher leaves out frequent words in a text of 200 words or more. So a line of one word
    # 10,000 times does not take minutes, but more words than needed are marked in such a line.
    codes = SequenceMatcher(None, old, new).get_opcodes()
    changes = [code for code in codes if code[0] != "equal"]
    gone = [(first, last) for _, first, last, _, _ in changes if first < last]
    added = [(first, last) for _, _, _, first, last in changes if first < last]
    return gone, added
