from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from moses_bridge.base.compiled.hash_table import (
    FREE,
    add_key,
    find_key,
    hash_bytes,
    hash_next,
    hash_number,
    n_slots,
    slot_of,
)

MAX_64 = 2**64


@njit
def enter_all(keys: Any, numbers: Any) -> Any:
    return np.array([add_key(keys, number) for number in numbers])


@njit
def slots_of(keys: Any, numbers: Any) -> Any:
    return np.array([find_key(keys, number) for number in numbers])


@njit
def first_slots(numbers: Any, slots: int) -> Any:
    return np.array([slot_of(hash_number(number), slots) for number in numbers])


@njit
def bytes_code(data: Any) -> Any:
    return hash_bytes(data, 0, len(data))


@njit
def sequence_code(numbers: Any) -> Any:
    code = hash_number(1)
    for number in numbers:
        code = hash_next(code, number)
    return code


@pytest.mark.parametrize("n", [0, 1, 8, 9, 1000, 1 << 20])
def test_at_most_half_of_the_slots_are_taken(n: int) -> None:
    slots = n_slots(n)
    assert slots & (slots - 1) == 0
    assert slots >= 2 * n and (slots == 16 or slots < 4 * n)


@pytest.mark.parametrize("stride", [1, 64, 1 << 20, 1 << 32, (1 << 40) + 1])
def test_a_set_of_numbers_is_a_set_of_python(stride: int) -> None:
    numbers = np.random.default_rng(stride).integers(0, 700, 3000) * stride
    keys = np.full(n_slots(700), FREE, np.int64)
    is_new = enter_all(keys, numbers)
    assert int(is_new.sum()) == len(set(numbers.tolist()))
    assert sorted(keys[keys != FREE].tolist()) == sorted(set(numbers.tolist()))
    found = slots_of(keys, numbers)
    assert keys[found].tolist() == numbers.tolist()
    assert (keys[slots_of(keys, np.arange(700 * stride + 1, 700 * stride + 50))] == FREE).all()


@pytest.mark.parametrize("stride", [1, 2, 1 << 16, 1 << 31, 1 << 32])
def test_numbers_in_a_row_are_spread(stride: int) -> None:
    """As well as chance would: of n balls thrown into 2 n slots some 0.39 n share one."""
    slots = first_slots(np.arange(4096) * stride, 8192)
    assert slots.min() >= 0 and slots.max() < 8192
    assert len(np.unique(slots)) > 0.7 * 4096


@pytest.mark.parametrize(
    ("text", "code"),
    [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)],
)
def test_bytes_have_the_published_codes_of_fnv_1a(text: bytes, code: int) -> None:
    assert int(bytes_code(np.frombuffer(text, np.uint8))) % MAX_64 == code


def test_the_order_and_the_length_of_a_sequence_count() -> None:
    sequences = [[], [0], [0, 0], [1], [1, 2], [2, 1], [1, 2, 0], [-1]]
    codes = {int(sequence_code(np.array(sequence, np.int64))) for sequence in sequences}
    assert len(codes) == len(sequences)
