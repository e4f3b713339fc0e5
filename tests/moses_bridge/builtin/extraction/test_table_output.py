"""Phrase tables against real Moses outputs, brute force and values worked out by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from moses_bridge.base.choices import Smoothing
from moses_bridge.base.textio import read_lines
from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus

Links = list[tuple[int, int]]
Sentence = tuple[list[bytes], list[bytes], Links]


@pytest.mark.parametrize(
    ("smoothing", "name", "occurrences_at_once"),
    [
        ("none", "phrase-table.none.gz", 1 << 20),
        ("good-turing", "phrase-table.gt.gz", 1 << 20),
        ("good-turing", "phrase-table.gt.gz", 1000),
    ],
)
def test_table_is_that_of_moses_byte_for_byte(
    golden: Path,
    golden_corpus: AlignedCorpus,
    tmp_path: Path,
    smoothing: Smoothing,
    name: str,
    occurrences_at_once: int,
    rows_of: Callable[..., list[bytes]],
) -> None:
    out = tmp_path / "table.gz"
    rows = rows_of(golden_corpus, out, 7, smoothing, occurrences_at_once)
    assert rows == list(read_lines(golden / "extract" / name))


def test_rows_stand_as_sort_puts_them(
    tmp_path: Path,
    corpus_of: Callable[[list[Sentence]], AlignedCorpus],
    rows_of: Callable[..., list[bytes]],
) -> None:
    words = [b"a", b"a\x01", b"a!", b"ab", b"|", b"||", b"||||", b"~", b"\xff", b"\xc3\xa9", b"{"]
    draw = random.Random(5)
    sentences: list[Sentence] = [
        (
            [draw.choice(words) for _ in range(6)],
            [draw.choice(words) for _ in range(6)],
            [(i, i) for i in range(6)],
        )
        for _ in range(60)
    ]
    corpus = corpus_of(sentences)
    rows = rows_of(corpus, tmp_path / "table.gz")
    assert len(rows) > 1000
    assert rows == sorted(rows)


def test_empty_corpus_gives_an_empty_table(
    tmp_path: Path,
    corpus_of: Callable[[list[Sentence]], AlignedCorpus],
    rows_of: Callable[..., list[bytes]],
) -> None:
    corpus = corpus_of([([], [], []), ([b"a"], [], [])])
    assert rows_of(corpus, tmp_path / "table.gz") == []
