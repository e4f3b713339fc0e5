from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.compiled.empty_arrays import empty_arrays


class Rows(NamedTuple):
    names: NDArray[np.int32]
    values: NDArray[np.float64]
    codes: NDArray[np.uint64]
    size: int


def test_arrays_have_the_annotated_types_and_other_fields_are_those_given() -> None:
    rows = empty_arrays(Rows, 3, size=7, codes=np.zeros(5, np.uint64))
    assert isinstance(rows, Rows)
    assert (rows.names.dtype, rows.values.dtype) == (np.int32, np.float64)
    assert [len(each) for each in rows[:3]] == [3, 3, 5] and rows.size == 7


@pytest.mark.parametrize("others", [{}, {"size": 1, "more": 2}])
def test_fields_that_are_no_arrays_or_that_the_tuple_lacks_are_errors(
    others: dict[str, Any],
) -> None:
    with pytest.raises((AttributeError, TypeError)):
        empty_arrays(Rows, 3, **others)
