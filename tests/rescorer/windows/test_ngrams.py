from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from rescorer.windows.ngrams import distinct_rows, first_of_each, sentence_ngrams


def test_ngrams_of_sentences() -> None:
    ids = np.array([4, 5, 6], np.int32)
    ngrams, sentences = sentence_ngrams(ids, np.array([2, 1]), 2, start_id=9, end_id=0)
    assert ngrams.tolist() == [[9, 9, 4], [9, 4, 5], [4, 5, 0], [9, 9, 6], [9, 6, 0]]
    assert sentences.tolist() == [0, 0, 0, 1, 1]


def test_distinct_rows_give_the_rows_back() -> None:
    rows = np.random.default_rng(3).integers(0, 3, (40, 3)).astype(np.int32)
    distinct, inverse = distinct_rows(rows)
    assert len(distinct) == len({tuple(row) for row in rows.tolist()})
    assert (distinct[inverse] == rows).all()


@pytest.mark.parametrize(("n", "width"), [(0, 2), (1, 1), (500, 2), (500, 3)])
def test_first_of_each_against_a_dictionary(n: int, width: int) -> None:
    rows = np.random.default_rng(n).integers(-1, 7, (n, 3)).astype(np.int32)
    seen: dict[tuple[int, ...], int] = {}
    expected = [seen.setdefault(tuple(row[:width]), len(seen)) for row in rows.tolist()]
    firsts, which = first_of_each(rows, width)
    assert which.tolist() == expected
    assert firsts.tolist() == [expected.index(number) for number in range(len(seen))]


@pytest.mark.parametrize("context_words", [1, 2, 5])
def test_ngrams_against_a_loop(context_words: int) -> None:
    rng = np.random.default_rng(context_words)
    lens = rng.integers(0, 6, 20)
    ids = rng.integers(2, 9, (20, 6)).astype(np.int32)
    expected = []
    for sentence, (row, n) in enumerate(zip(ids.tolist(), lens, strict=True)):
        words = [*[99] * context_words, *row[:n], 0]
        expected += [
            (words[last - context_words : last + 1], sentence)
            for last in range(context_words, len(words))
        ]
    flat = np.concatenate([row[:n] for row, n in zip(ids, lens, strict=True)])
    ngrams, sentences = sentence_ngrams(flat, lens, context_words, start_id=99, end_id=0)
    assert [*zip(ngrams.tolist(), sentences.tolist(), strict=True)] == expected


def test_no_sentences() -> None:
    ngrams, sentences = sentence_ngrams(np.zeros(0, np.int32), np.zeros(0, np.int64), 2, 9, 0)
    assert ngrams.shape == (0, 3) and sentences.shape == (0,)


def test_lengths_of_other_sentences_are_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot|mismatch"):
        sentence_ngrams(np.zeros(5, np.int32), np.array([1, 2, 3]), 2, 9, 0)


def test_one_long_sentence_costs_no_more_than_its_words() -> None:
    lens = np.array([20_000] + [5] * 1000)
    ids = np.ones(int(lens.sum()), np.int32)
    tracemalloc.start()
    ngrams, _ = sentence_ngrams(ids, lens, 6, 9, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * ngrams.nbytes
