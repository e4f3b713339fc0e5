"""Comparing a domain's and a general n-gram model of each side of a text."""

from __future__ import annotations

import heapq
import random
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.errors import InputError
from moses_bridge.base.progress import track_lines
from moses_bridge.base.text_lines import read_parallel
from moses_bridge.builtin.language_model.kneser_ney import model_within, pruning_thresholds
from moses_bridge.builtin.language_model.lm_index import LN10, LmIndex
from moses_bridge.builtin.language_model.tokens import SPECIAL_WORDS, words_of_line

ROWS_AT_ONCE = 4096

Rows = Iterable[tuple[bytes, ...]]


@dataclass(frozen=True)
class DomainModels:
    """The models of one side: of text from the domain, and of general text."""

    domain: LmIndex
    general: LmIndex

    def differences(self, lines: Sequence[bytes]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """H_domain - H_general of lines, their cross-entropies in nats per word, (n,), and their words, (n,).

        The score is that of Moore and Lewis (Intelligent selection of language model training data, ACL 2010);
        smaller is closer to the domain. </s> counts as a word; a line without words has infinity.
        """
        split = [words_of_line(line) for line in lines]
        lengths = np.fromiter(map(len, split), np.int64, len(split))
        words = [word for sentence in split for word in sentence]
        sums = [model.sentence_sums(words, lengths) for model in (self.domain, self.general)]
        differences = (sums[1] - sums[0]) * LN10 / (lengths + 1)
        return np.where(lengths > 0, differences, np.inf), lengths


def read_domain_models(domain: Sequence[Path], general: Sequence[Path]) -> list[DomainModels]:
    """Read the models of each side, ARPA files; InputError if a file is malformed."""
    pairs = zip(domain, general, strict=True)
    return [DomainModels(LmIndex.read(one), LmIndex.read(other)) for one, other in pairs]


def estimate_domain_models(
    domain: Sequence[Path], general: Sequence[Path], order: int, min_count: int, seed: int
) -> list[DomainModels]:
    """Make the models of each side from text of the domain and the same number of words of general text.

    Domain and general text are a file per side; two sides are parallel. General text is read once: lines are
    drawn at random until they have as many words, on both sides together, as the domain's text. Both models of
    a side know the words occurring at least `min_count` times in the domain's text; all others are <unk> (Moore
    and Lewis 2010). Smoothing is modified Kneser-Ney.

    Raises:
        InputError: a text is empty, has no word often enough, or has fewer lines than another one.
    """
    rows = list(track_lines(read_parallel(*domain), "domain", domain[0], "lines"))
    sample = draw_rows(
        track_lines(read_parallel(*general), "draw general text", general[0], "lines"),
        sum(map(_row_words, rows)),
        seed,
    )
    thresholds = pruning_thresholds(order, ())
    models = []
    for i, (one, other) in enumerate(zip(domain, general, strict=True)):
        texts = [[words_of_line(row[i]) for row in part] for part in (rows, sample)]
        for path, text in zip((one, other), texts, strict=True):
            if not any(text):
                raise InputError(path, None, "no words", "a text with at least one word")
        vocabulary = frequent_words(texts[0], min_count)
        if not vocabulary:
            found = f"no word at least {min_count} times"
            raise InputError(one, None, found, "more text of the domain", "Or set min_count = 1")
        arpas = [model_within(text, vocabulary, thresholds) for text in texts]
        models.append(DomainModels(LmIndex.of(arpas[0], one), LmIndex.of(arpas[1], other)))
    return models


def frequent_words(text: Iterable[Sequence[bytes]], min_count: int) -> list[bytes]:
    """The words occurring at least `min_count` times in a text, by first appearance, without markers."""
    counts = Counter(word for sentence in text for word in sentence)
    return [word for word, n in counts.items() if n >= min_count and word not in SPECIAL_WORDS]


def _row_words(row: tuple[bytes, ...]) -> int:
    return sum(len(words_of_line(line)) for line in row)


def draw_rows(rows: Rows, size: int, seed: int) -> list[tuple[bytes, ...]]:
    """Draw rows at random, without replacement, until they have `size` words; in one pass.

    The rows with the smallest random keys stay, in the order of the text; all if there are too few. No more
    rows than needed are ever kept.
    """
    chance = random.Random(seed)
    heap: list[tuple[float, int, int, tuple[bytes, ...]]] = []  # the largest key first
    total = 0
    for position, row in enumerate(rows):
        key = -chance.random()
        if total >= size and heap and key < heap[0][0]:
            continue
        length = _row_words(row)
        if length == 0:
            continue
        heapq.heappush(heap, (key, position, length, row))
        total += length
        while heap and total - heap[0][2] >= size:
            total -= heapq.heappop(heap)[2]
    return [row for _, _, _, row in sorted(heap, key=lambda entry: entry[1])]


def score_rows(
    rows: Rows, models: Sequence[DomainModels]
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """The sum of the sides' differences for each row, (n,), and the words of its first side, (n,).

    The score is that of Axelrod et al. (Domain adaptation via pseudo in-domain data selection, EMNLP 2011);
    with one side that of Moore and Lewis. Smaller is closer to the domain.
    """
    scores, words = array("d"), array("i")
    for block in blocks_of(rows, ROWS_AT_ONCE):
        columns = zip(models, zip(*block, strict=True), strict=True)
        sides = [model.differences(lines) for model, lines in columns]
        scores.frombytes(np.sum([values for values, _ in sides], axis=0).tobytes())
        words.frombytes(sides[0][1].astype(np.int32).tobytes())
    return np.frombuffer(scores), np.frombuffer(words, np.int32)
