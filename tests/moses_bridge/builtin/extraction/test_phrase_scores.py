from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from moses_bridge.builtin.extraction import lexical, table_output
from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus
from moses_bridge.builtin.extraction.lexical import discounted_counts, good_turing_discounts

Links = list[tuple[int, int]]


Sentence = tuple[list[bytes], list[bytes], Links]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_output, "ROWS_AT_ONCE", 4)
    monkeypatch.setattr(lexical, "PAIRS_AT_ONCE", 3)


def test_lexical_weights_by_hand(
    tmp_path: Path,
    corpus_of: Callable[[list[Sentence]], AlignedCorpus],
    rows_of: Callable[..., list[bytes]],
) -> None:
    # x is linked once to A, once to B; y once to B; B's second sentence has C without link.
    sentences: list[Sentence] = [
        ([b"x"], [b"A"], [(0, 0)]),
        ([b"x", b"y"], [b"B", b"C"], [(0, 0), (1, 0)]),
    ]
    corpus = corpus_of(sentences)
    rows = {tuple(row.split(b" ||| ")[:2]): row for row in rows_of(corpus, tmp_path / "table")}
    # p(B|x) = 1/2, p(B|y) = 1: B is explained by their mean; p(C|NULL) = 1; p(x|B) = p(y|B) = 1/2.
    assert rows[b"x y", b"B C"] == (
        b"x y ||| B C ||| 1 0.25 0.5 0.75 ||| 0-0 1-0 ||| 1 2 1 ||| |||"
    )
    assert rows[b"x y", b"B"] == b"x y ||| B ||| 1 0.25 0.5 0.75 ||| 0-0 1-0 ||| 1 2 1 ||| |||"


def test_discounts_by_hand() -> None:
    n = np.array([0, 100, 40, 30, 1, 5, 5, 5, 5, 5, 5])
    # d_1 = 2 * 40.1 / 100.1; d_2 = 1.5 * 30.1 / 40.1; d_3 = 4/3 * 1.1 / 30.1 is below d_2 and
    # raised to it; d_4 = 1.25 * 5.1 / 1.1 is above 1; from there on nothing falls below 1.
    expected = [0.01, 0.8011988, 1.1259352, 1, 1, 1, 1, 1, 1, 1]
    expected[2] = min(expected[2], 1.0)
    np.testing.assert_allclose(good_turing_discounts(n), expected, rtol=1e-6)


def test_counts_of_counts_are_those_of_all_blocks() -> None:
    counts = np.array([1, 1, 2, 10, 11, 300, 4, 1, 10])
    read = lambda first, end: SimpleNamespace(counts=counts[first:end])  # noqa: E731
    pairs: Any = SimpleNamespace(n_rows=len(counts), read=read)
    assert lexical._counts_of_counts(pairs).tolist() == [0, 3, 1, 0, 1, 0, 0, 0, 0, 0, 2]


def test_counts_from_9_on_are_not_discounted() -> None:
    counts, halves = np.array([1, 8, 9, 10], np.int32), np.full(10, 0.5, np.float32)
    assert discounted_counts(counts, halves).tolist() == [0.5, 4, 9, 10]


def test_scores_are_distributions(
    tmp_path: Path,
    corpus_of: Callable[[list[Sentence]], AlignedCorpus],
    rows_of: Callable[..., list[bytes]],
    random_sentences: Callable[[int, int, int], list[Sentence]],
) -> None:
    corpus = corpus_of(random_sentences(7, 40, 8))
    sums: defaultdict[bytes, float] = defaultdict(float)
    for row in rows_of(corpus, tmp_path / "table"):
        source, _, scores, _ = row.split(b" ||| ", 3)
        sums[source] += float(scores.split()[2])
    assert set(np.round(list(sums.values()), 3)) == {1.0}
