from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.errors import NumbaError

from moses_bridge.base.compiled.inner import inlined, inner, inner_maker


@inner
def _make(size: int) -> Any:
    return np.zeros(size)


@inner_maker
def _length(size: int) -> int:
    return len(np.zeros(size))


@inner
def _sum_inner(values: Any) -> float:
    total = 0.0
    for row in range(len(values)):
        part = values[row]
        for i in range(len(part)):
            total += part[i]
    return float(total + _length(2))


@inlined
def _sum_inlined(values: Any) -> float:
    return float(_sum_inner(values))


def test_an_inner_function_that_makes_an_array_is_refused() -> None:
    @njit
    def call() -> Any:
        return _make(3)

    with pytest.raises(NumbaError, match="returning of array"):
        call()


def test_inner_functions_count_no_references_and_may_call_one_that_makes_arrays() -> None:
    @njit
    def call(values: Any) -> float:
        return float(_sum_inner(values) + _sum_inlined(values))

    assert call(np.ones((3, 4))) == 2 * (12 + 2)
    for function in (_sum_inner, _sum_inlined):
        function.recompile()  # what an earlier run has kept cannot be inspected
        [code] = function.inspect_llvm().values()
        assert "NRT_incref(" not in code.split("define")[1]


def test_inner_code_can_end_with_an_error() -> None:
    @inner
    def check(value: float) -> float:
        if value < 0:
            raise ValueError("below 0")
        return value

    @njit
    def call(value: float) -> float:
        return float(check(value))

    assert call(3.0) == 3.0
    with pytest.raises(ValueError, match="below 0"):
        call(-1.0)
