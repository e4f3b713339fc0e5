from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from moses_bridge.compiled.unsigned_indices import Compiler, compiled


def _gather(numbers: Any, table: Any, places: Any) -> float:
    """Every kind of index that compiled code uses."""
    total = numbers[-1] + table[0, -1]
    numbers[-1], table[0, -1] = 0.5, 2.5
    for i in range(len(places)):
        place = places[i]
        total += numbers[place] + table[place, i] + table[i, 1:][place]
        numbers[place] += 1.0
        table[place, i] = total
    return float(total)


def _read(numbers: Any, places: Any) -> float:
    return float(numbers[places[0]])


def _arrays() -> tuple[Any, Any, Any]:
    return np.arange(4.0), np.arange(12.0).reshape(3, 4), np.array([2, 0, 1], np.int32)


def test_compiled_code_reads_and_writes_as_plain_python() -> None:
    compiled_arrays, plain_arrays = _arrays(), _arrays()
    assert compiled(_gather)(*compiled_arrays) == _gather(*plain_arrays)
    for one, other in zip(compiled_arrays, plain_arrays, strict=True):
        assert one.tolist() == other.tolist()


def test_no_index_is_compared() -> None:
    arguments = np.arange(4.0), np.array([2], np.int32)
    compared = []
    for function in (njit(_read), njit(pipeline_class=Compiler)(_read)):
        assert function(*arguments) == 2.0
        [code] = function.inspect_llvm().values()
        compared.append("select" in code.split("define")[1])
    assert compared == [True, False]


def test_an_index_below_0_is_refused_where_bounds_are_checked() -> None:
    checked = njit(boundscheck=True, pipeline_class=Compiler)(_read)
    with pytest.raises(IndexError, match="out of bounds"):
        checked(np.arange(4.0), np.array([-1], np.int32))
