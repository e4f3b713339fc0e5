from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.errors import UserError
from moses_bridge.builtin.decoder.ngram_memo import Compute, NgramMemo

Function = Callable[[NDArray[np.int32]], NDArray[np.float32]]


def at_once(function: Function) -> Compute:
    return lambda ngrams: partial(function, ngrams)


def test_the_memo_asks_for_each_ngram_once_and_may_forget() -> None:
    asked: list[int] = []

    def values_of(ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        asked.append(len(ngrams))
        return (ngrams @ [100, 10, 1]).astype(np.float32)

    memo = NgramMemo(at_once(values_of), max_ngrams=60)
    generator = np.random.default_rng(0)
    for _ in range(30):
        ngrams = generator.integers(0, 5, (25, 3), dtype=np.int32)
        np.testing.assert_array_equal(memo(ngrams), ngrams @ [100, 10, 1])
    assert sum(asked) < 2 * 30 * 25
    asked.clear()
    assert memo(np.zeros((9, 3), np.int32)).tolist() == [0] * 9
    assert sum(asked) <= 1


def test_all_are_forgotten_when_there_would_be_too_many() -> None:
    asked: list[int] = []

    def values_of(ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        asked.extend(ngrams[:, 0].tolist())
        return ngrams[:, 0].astype(np.float32)

    memo = NgramMemo(at_once(values_of), max_ngrams=4)
    for ngrams, new in (([1, 2], [1, 2]), ([1, 2], []), ([3], [3]), ([1, 2], [1, 2])):
        asked.clear()
        assert memo(np.array(ngrams, np.int32)[:, None]).tolist() == ngrams
        assert asked == new


def test_each_ngram_is_requested_once_however_many_there_are() -> None:
    asked: list[tuple[int, ...]] = []

    def values_of(ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        asked.extend(map(tuple, ngrams.tolist()))
        return np.zeros(len(ngrams), np.float32)

    memo = NgramMemo(at_once(values_of))
    ngrams = np.random.default_rng(1).integers(0, 300, (60_000, 2), dtype=np.int32)
    for part in np.split(ngrams, 6):
        memo(np.concatenate([part, ngrams[:1]]))
    assert len(asked) == len(set(asked)) == len(np.unique(ngrams, axis=0))


def test_a_value_that_is_no_number_is_refused() -> None:
    memo = NgramMemo(at_once(lambda ngrams: np.full(len(ngrams), np.nan, np.float32)))
    with pytest.raises(UserError, match="finite"):
        memo(np.zeros((1, 2), np.int32))


def test_forgotten_values_are_requested_again() -> None:
    weights = [1]
    memo = NgramMemo(at_once(lambda ngrams: (ngrams @ weights).astype(np.float32)))
    assert memo(np.array([[3], [5], [3]], np.int32)).tolist() == [3, 5, 3]
    weights[0] = 2
    assert memo(np.array([[5]], np.int32)).tolist() == [5]
    memo.forget()
    assert memo(np.array([[5], [7]], np.int32)).tolist() == [10, 14]
