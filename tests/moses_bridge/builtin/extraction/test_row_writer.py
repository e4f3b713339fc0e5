from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from moses_bridge.builtin.extraction.table_output import put_number


@njit
def put(out: Any, number: float) -> int:
    return int(put_number(out, 0, number))


def printed(number: float) -> bytes:
    out = np.zeros(64, np.uint8)
    return out[: put(out, number)].tobytes()


def test_numbers_are_printed_as_c_prints_them() -> None:
    draw = np.random.default_rng(1)
    numbers = [0.0, 1.0, 0.1, 2.718, 10.0, 99999.96, 999999.6, 1e6, 123456789.0, 9.9999951e-5, 1e-4]
    numbers += [2.0**-k for k in range(60)] + list(np.exp(-40 * draw.random(20000)))
    numbers += list(np.float32(draw.random(20000)).astype(float))
    assert [printed(number) for number in numbers] == [b"%g" % number for number in numbers]
