"""Compiled exponentials and narrow floats against NumPy and PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest
import torch
from scipy.special import expit

from rescorer.layers.float_bits import (
    bits_as_float,
    exp,
    float_as_bits,
    from_bfloat16,
    highest,
    in_order,
    narrowed,
    sigmoid,
    tanh,
    to_bfloat16,
    widened,
)


def test_rounding_to_bfloat16_is_that_of_torch() -> None:
    numbers = torch.cat([torch.randn(999), torch.tensor([0.0, -0.0, 1.00390625, 1.01171875, 3e38])])
    found = [int(round_to_bfloat16(number)) for number in numbers.numpy()]
    assert found == numbers.bfloat16().view(torch.uint16).tolist()


@numba.njit
def round_to_bfloat16(number: Any) -> Any:
    return to_bfloat16(number)


@numba.njit
def compiled_exp(number: Any) -> Any:
    return exp(number)


def test_exponentials() -> None:
    numbers = np.linspace(-87, 0, 997, dtype=np.float32)
    found = [compiled_exp(number) for number in numbers]
    np.testing.assert_allclose(found, np.exp(numbers.astype(np.float64)), rtol=5e-6)


@numba.njit
def compiled_gates(number: Any) -> Any:
    return sigmoid(number), tanh(number)


def test_gates() -> None:
    numbers = np.concatenate([np.linspace(-100, 100, 999), [0.0, -1e-6, 1e-6, 1e4, -1e4]])
    numbers = numbers.astype(np.float32)
    found = np.array([compiled_gates(number) for number in numbers])
    numbers = numbers.astype(np.float64)
    exact = np.stack([expit(numbers), np.tanh(numbers)], axis=1)
    np.testing.assert_allclose(found, exact, rtol=0, atol=3e-7)


@numba.njit
def compiled_highest(numbers: Any) -> Any:
    return highest(numbers)


@pytest.mark.parametrize("numbers", [[-3.0, -2.5, -7.0], [0.5, -1.0, 1e30], [-0.0], [-1e-40, -1.0]])
def test_highest(numbers: list[float]) -> None:
    array = np.array(numbers, np.float32)
    assert compiled_highest(array) == array.max()


@numba.njit
def read_bfloat16(bits: Any) -> Any:
    return from_bfloat16(bits)


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, -3.25, 3e38, -1e-38, math.inf, -math.inf])
def test_a_bfloat16_is_widened_as_torch_does(number: float) -> None:
    narrow = torch.tensor(number).bfloat16()
    found = read_bfloat16(np.uint16(narrow.view(torch.uint16).item()))
    assert np.float32(found).tobytes() == np.float32(narrow.float().item()).tobytes()


@numba.njit
def bits_of(number: Any) -> Any:
    return float_as_bits(number)


@numba.njit
def back(number: Any) -> Any:
    return bits_as_float(float_as_bits(number))


@numba.njit
def ordered(number: Any) -> Any:
    return in_order(float_as_bits(number))


@numba.njit
def twice(bits: Any) -> Any:
    return in_order(in_order(bits))


def test_bits_are_those_of_the_memory() -> None:
    numbers = np.array([0.0, -0.0, 1.0, -2.5, 3.4e38, -1e-45, np.inf], np.float32)
    assert [bits_of(number) for number in numbers] == numbers.view(np.int32).tolist()
    assert [back(number) for number in numbers] == numbers.tolist()


def test_integers_are_in_the_order_of_the_floats() -> None:
    rng = np.random.default_rng(1)
    numbers = np.concatenate([rng.normal(size=200) * 10.0 ** rng.integers(-30, 30, 200), [1e-40]])
    numbers = np.sort(numbers.astype(np.float32))
    integers = [int(ordered(number)) for number in numbers]
    assert integers == sorted(integers) and len(set(integers)) == len(set(numbers.tolist()))
    bits = numbers.view(np.int32)
    assert [twice(number) for number in bits] == bits.tolist()


def test_an_exponent_below_the_range_is_nearly_nothing() -> None:
    """In a sum of exponentials whose largest is 1 it may be anything below a float32's last place."""
    assert 0 <= compiled_exp(np.float32(-1e4)) < 1e-37


@numba.njit
def doubled(numbers: Any, out: Any) -> None:
    for i in range(len(numbers)):
        out[i] = narrowed(2 * widened(numbers[i]), out[i])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("other", [torch.float32, torch.bfloat16])
def test_one_loop_serves_both_types(dtype: torch.dtype, other: torch.dtype) -> None:
    tensors = torch.randn(20).to(dtype), torch.empty(20, dtype=other)
    arrays = [t if t.dtype == torch.float32 else t.view(torch.uint16) for t in tensors]
    doubled(*(array.numpy() for array in arrays))
    torch.testing.assert_close(tensors[1], (2 * tensors[0].float()).to(other), rtol=0, atol=0)


@pytest.mark.parametrize("number", [0.0, 1.5, -3.25, 1.00390625, 3e38])
def test_python_alone_widens_and_narrows_as_compiled_code(number: float) -> None:
    """As under NUMBA_DISABLE_JIT=1."""
    wide, narrow = torch.tensor(number), torch.tensor(number).bfloat16()
    bits = np.uint16(narrow.view(torch.uint16).item())
    assert narrowed(np.float32(number), bits) == bits
    assert widened(bits) == narrow.float().item()
    assert narrowed(np.float32(number), np.float32(0)) == widened(np.float32(number)) == wide.item()
