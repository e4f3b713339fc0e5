from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.textio import write_lines
from moses_bridge.builtin.extraction.aligned_corpus import Text, read_text
from moses_bridge.builtin.extraction.occurrences import leading_words, number_phrases

FEW = [b"a", b"a!", b"a\x01", b"ab", b"~", b"\xc3\xa9", b"{"]
MANY = [b"w%d" % number for number in range(3000)]


def text_of(folder: Path, words: list[bytes], n_words: int) -> Text:
    draw = random.Random(n_words)
    write_lines(folder / "text", [b" ".join(draw.choices(words, k=n_words))])
    return read_text(folder / "text", folder)


def places(text: Text, n: int) -> tuple[np.ndarray, np.ndarray, list[bytes]]:
    """Phrases of 1 to 7 words anywhere in the text, and each as a row of a table begins."""
    generator = np.random.default_rng(n)
    starts = generator.integers(0, len(text.words) - 7, n).astype(np.int32)
    lens = generator.integers(1, 8, n).astype(np.uint8)
    rows = [
        b" ".join(text.vocabulary[word] for word in text.words[start : start + length]) + b" ||| "
        for start, length in zip(starts, lens, strict=True)
    ]
    return starts, lens, rows


@pytest.mark.parametrize("words", [FEW, MANY])
def test_numbers_ascend_as_sorted_rows_do(tmp_path: Path, words: list[bytes]) -> None:
    text = text_of(tmp_path, words, 4000)
    starts, lens, rows = places(text, 3000)
    ranks = {row: rank for rank, row in enumerate(sorted(set(rows)))}
    assert number_phrases(text, starts, lens).tolist() == [ranks[row] for row in rows]


@pytest.mark.parametrize("words", [FEW, MANY])
def test_leading_words_ascend_in_the_same_order(tmp_path: Path, words: list[bytes]) -> None:
    text = text_of(tmp_path, words, 4000)
    starts, lens, rows = places(text, 3000)
    keys = leading_words(text, starts, lens)
    order = np.array(sorted(range(len(rows)), key=lambda i: rows[i]))
    assert (np.diff(keys[order]) >= 0).all()
    assert keys.min() >= 0


def test_no_phrases(tmp_path: Path) -> None:
    text = text_of(tmp_path, FEW, 10)
    none = np.empty(0, np.int32), np.empty(0, np.uint8)
    assert number_phrases(text, *none).tolist() == []
