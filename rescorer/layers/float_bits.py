"""Exponentials and narrow floats for compiled loops, using operations that vectorise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from moses_bridge.base.compiled import numba
from moses_bridge.base.compiled.inner import expanded

# exp(x) = 2^(x log2 e). Below 2^-126 floats are denormal: such terms are as good as 0 in a sum. Above 2^100 a
# sum of thousands of them could be infinite.
LOG2_E = np.float32(math.log2(math.e))
LOWEST_EXPONENT, HIGHEST_EXPONENT = np.float32(-126.0), np.float32(100.0)


@expanded
def bits_as_float(bits: Any) -> Any:
    """The float32 with these 32 bits."""
    return np.int32(bits).view(np.float32)


@expanded
def float_as_bits(number: Any) -> Any:
    """The 32 bits of a float32."""
    return np.float32(number).view(np.int32)


@expanded
def from_bfloat16(bits: Any) -> Any:
    """The float32 value of the 16 bits of a bfloat16, which are the upper half of a float32."""
    return bits_as_float(np.int32(bits) << np.int32(16))


@expanded
def to_bfloat16(number: Any) -> Any:
    """The bits of the nearest bfloat16, rounding ties to even."""
    bits = float_as_bits(number)
    odd = (bits >> np.int32(16)) & np.int32(1)
    return np.uint16((bits + np.int32(0x7FFF) + odd) >> np.int32(16))


@expanded
def in_order(bits: Any) -> Any:
    """Turn the bits of floats into integers of the same order, and back.

    A maximum of integers is compiled to vector instructions, one of floats is not.
    """
    return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(2**31 - 1)))


@expanded
def highest(numbers: Any) -> Any:
    """Maximum of an array of float32."""
    result = np.int32(-(2**31))
    for place in range(len(numbers)):
        result = max(result, in_order(float_as_bits(numbers[place])))
    return bits_as_float(in_order(result))


@expanded
def exp(x: Any) -> Any:
    """e^x to 2e-7, at most 2^100: 2^n times a polynomial of the rest."""
    # The polynomial is 2^(rest + 1/2) on -1/2 … 1/2, fitted for the smallest relative error.
    scaled = min(max(x * LOG2_E, LOWEST_EXPONENT), HIGHEST_EXPONENT)
    whole = np.floor(scaled)
    rest = scaled - whole - np.float32(0.5)
    power = np.float32(0.00021877505)
    power = power * rest + np.float32(0.0018951073)
    power = power * rest + np.float32(0.013601942)
    power = power * rest + np.float32(0.07849348)
    power = power * rest + np.float32(0.3397316)
    power = power * rest + np.float32(0.98025817)
    power = power * rest + np.float32(1.4142135)
    return power * bits_as_float((np.int32(whole) + np.int32(127)) << np.int32(23))


@expanded
def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x) to 2e-7."""
    small = exp(-abs(x))
    larger = np.float32(1.0) / (np.float32(1.0) + small)
    return larger if x >= np.float32(0.0) else small * larger


@expanded
def tanh(x: Any) -> Any:
    """The hyperbolic tangent, to an absolute error of 2e-7."""
    small = exp(np.float32(-2.0) * abs(x))
    size = (np.float32(1.0) - small) / (np.float32(1.0) + small)
    return size if x >= np.float32(0.0) else -size


def widened(number: Any) -> Any:
    """The value of a number: a float itself, or the bfloat16 whose bits a uint16 holds."""
    return from_bfloat16(number) if isinstance(number, np.uint16) else number


def narrowed(number: Any, like: Any) -> Any:
    """A float in the form of `like`: unchanged, or the bits of its nearest bfloat16."""
    return to_bfloat16(number) if isinstance(like, np.uint16) else number


@numba.extending.overload(widened, strict=False)
def _widened(number: Any) -> Any:
    if isinstance(number, numba.types.Float):
        return lambda number: number
    return lambda number: from_bfloat16(number)


@numba.extending.overload(narrowed, strict=False)
def _narrowed(number: Any, like: Any) -> Any:
    if isinstance(like, numba.types.Float):
        return lambda number, like: number
    return lambda number, like: to_bfloat16(number)
