"""Counts on disk against a Counter, whatever number of n-grams is in memory at a time."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.base.array_file import ArrayFile, ArrayFiles
from moses_bridge.base.textio import write_lines
from moses_bridge.builtin.language_model.ngram_counts import (
    NGramCounts,
    adjusted_counts,
    count_ngrams,
    read_tokens,
)

ORDER = 4


@pytest.fixture
def sentences() -> list[list[bytes]]:
    draw = random.Random(8)
    return [draw.choices([b"a", b"b", b"c", b"d"], k=draw.randint(0, 7)) for _ in range(80)]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ArrayFiles]:
    with ArrayFiles(tmp_path) as files:
        yield files


def values(array: ArrayFile[Any]) -> list[int]:
    return list(array.read(0, len(array)).tolist())


def spelled(orders: list[NGramCounts], words: list[bytes]) -> list[list[tuple[bytes, ...]]]:
    """The n-grams of each order by their words, from first words and suffixes."""
    ngrams: list[list[tuple[bytes, ...]]] = [[(words[i],) for i in values(orders[0].first_words)]]
    for order in orders[1:]:
        ngrams.append(
            [
                (words[first], *ngrams[-1][suffix])
                for first, suffix in zip(
                    values(order.first_words), values(order.suffixes), strict=True
                )
            ]
        )
    return ngrams


@pytest.mark.parametrize("at_once", [1, 7, 100, 1000])
def test_counts_are_those_of_a_counter(
    tmp_path: Path, files: ArrayFiles, sentences: list[list[bytes]], at_once: int
) -> None:
    write_lines(tmp_path / "text", [b" ".join(sentence) for sentence in sentences])
    tokens = read_tokens(tmp_path / "text", files)
    orders = count_ngrams(tokens, ORDER, files, at_once)
    ngrams = spelled(orders, tokens.words)
    for n in range(1, ORDER + 1):
        counts: Counter[tuple[bytes, ...]] = Counter()
        for sentence in sentences:
            padded = (b"<s>", *sentence, b"</s>")
            counts.update(padded[i : i + n] for i in range(len(padded) - n + 1))
        if n == 1:
            counts[(b"<s>",)] = counts[(b"<unk>",)] = 0  # never predicted
        found = dict(zip(ngrams[n - 1], values(orders[n - 1].raw), strict=True))
        assert found == dict(counts)
        for ngram, context in zip(ngrams[n - 1], values(orders[n - 1].contexts), strict=True):
            assert n == 1 or ngrams[n - 2][context] == ngram[:-1]


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_adjusted_counts_are_numbers_of_different_words_before(
    tmp_path: Path, files: ArrayFiles, sentences: list[list[bytes]], at_once: int
) -> None:
    write_lines(tmp_path / "text", [b" ".join(sentence) for sentence in sentences])
    tokens = read_tokens(tmp_path / "text", files)
    orders = count_ngrams(tokens, ORDER, files, at_once)
    ngrams = spelled(orders, tokens.words)
    before: defaultdict[tuple[bytes, ...], set[bytes]] = defaultdict(set)
    for order in ngrams[1:]:
        for ngram in order:
            before[ngram[1:]].add(ngram[0])
    for n, adjusted in enumerate(adjusted_counts(orders, files, at_once), start=1):
        raws = values(orders[n - 1].raw)
        for ngram, raw, count in zip(ngrams[n - 1], raws, values(adjusted), strict=True):
            keeps_raw = n == ORDER or ngram[0] == b"<s>"
            assert count == (raw if keeps_raw else len(before[ngram]))
