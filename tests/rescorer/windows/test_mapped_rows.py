"""Windows in files are those in memory, held-out ones apart."""

from __future__ import annotations

import numpy as np

from rescorer.windows.mapped_rows import mapped_rows
from rescorer.windows.ngrams import sentence_ngrams


def test_parts_are_put_together() -> None:
    random_numbers = np.random.default_rng(3)
    lens = random_numbers.integers(0, 6, 40)
    ids = random_numbers.integers(2, 9, int(lens.sum())).astype(np.int32)
    whole, sentence = sentence_ngrams(ids, lens, 3, 9, 0)
    held_out = random_numbers.random(40) < 0.3
    ends = np.concatenate(([0], np.cumsum(lens)))
    rows = mapped_rows(
        (
            sentence_ngrams(ids[ends[first] : ends[end]], lens[first:end], 3, 9, 0)
            for first, end in ((0, 1), (1, 17), (17, 40))
        ),
        held_out,
    )
    assert np.array_equal(rows.train, whole[~held_out[sentence]])
    assert np.array_equal(rows.held_out, whole[held_out[sentence]])
    assert len(rows.held_out) > 10


def test_nothing_held_out() -> None:
    part = sentence_ngrams(np.array([3], np.int32), np.array([1]), 2, 9, 0)
    rows = mapped_rows([part], np.zeros(1, np.bool_))
    assert rows.train.tolist() == [[9, 9, 3], [9, 3, 0]]
    assert rows.held_out.shape == (0, 3)


def test_a_part_may_end_with_an_empty_sentence_and_there_may_be_none() -> None:
    first = sentence_ngrams(np.array([3, 4], np.int32), np.array([2, 0]), 1, 9, 0)
    second = sentence_ngrams(np.array([5], np.int32), np.array([1]), 1, 9, 0)
    rows = mapped_rows([first, second], np.array([False, False, True]))
    assert rows.train.tolist() == [[9, 3], [3, 4], [4, 0], [9, 0]]
    assert rows.held_out.tolist() == [[9, 5], [5, 0]]
    assert [len(each) for each in mapped_rows([], np.zeros(0, np.bool_))] == [0, 0]
