"""From random bits to standard normal values: the transform of Box and Muller (1958), with a radius from 64 bits.

Two independent normal values are `R cos A` and `R sin A`, with A uniform on the circle and `R = sqrt(-2 ln U)`, U uniform
on (0, 1). What a value can't be larger than is decided by the smallest U alone, so U is made from a whole 64-bit word W:

    U = (|W| + 1/2) / 2^63,    W uniform over the signed 64-bit integers.

Coupled with a real number w uniform on [-2^63, 2^63) whose floor is W, U is within 3/2 * 2^-63 of the uniform |w| / 2^63.
So Pr(R > x) is within 2^-62 of exp(-x^2 / 2) for every x, and R reaches sqrt(128 ln 2) = 9.42, where 1e-19 of the circle
lies beyond. U is never 0 and never above 1, so R is finite for every word. Only then does rounding begin: U is rounded to
the arithmetic's precision relative to its own size, so the tail keeps all its digits. (A float32 uniform in [2^-24, 1), by
contrast, ends at 5.77: what lies beyond is a leak.) The angle has 32 bits in float32 and 64 in float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy
from numpy.typing import NDArray


def words_needed(values: int, dtype: numpy.dtype[Any]) -> int:
    """Give how many 64-bit words are turned into so many values: three for two pairs in float32, else two a pair."""
    pairs = (values + 1) // 2
    return pairs + (pairs + 1) // 2 if dtype == numpy.float32 else 2 * pairs


def normals_(out: NDArray[Any], bits: NDArray[numpy.uint8]) -> None:  # [values], [8 * words_needed]
    """Overwrite `out` (float32 or float64) with standard normal values made from `bits`, which are used up."""
    pairs = (len(out) + 1) // 2
    radius = _radii(bits[: 8 * pairs].view(numpy.int64), out.dtype)
    first, second = out[:pairs], out[pairs:]
    if out.dtype == numpy.float32:
        angle = bits[8 * pairs : 12 * pairs].view(numpy.int32).astype(numpy.float32)
        angle *= numpy.float32(math.pi * 2.0**-31)
        numpy.cos(angle, out=first)
        first *= radius
        numpy.sin(angle[: len(second)], out=second)
        second *= radius[: len(second)]
    else:
        # NumPy's float64 sine and cosine are slow; both follow from one tangent of the half angle t:
        # cos = 2 / (1 + t^2) - 1 and sin = 2 t / (1 + t^2).
        half = bits[8 * pairs : 16 * pairs].view(numpy.int64).astype(numpy.float64)
        half *= math.pi * 2.0**-64
        tangent = numpy.tan(half, out=half)
        scaled = 2 * radius / (1 + tangent * tangent)
        numpy.subtract(scaled, radius, out=first)
        numpy.multiply(scaled[: len(second)], tangent[: len(second)], out=second)


def _radii(words: NDArray[numpy.int64], dtype: numpy.dtype[Any]) -> NDArray[Any]:
    number = dtype.type
    values: NDArray[Any] = words.astype(dtype)
    numpy.abs(values, out=values)
    values *= number(2.0**-63)
    values += number(2.0**-64)
    numpy.log(values, out=values)
    values *= number(-2)
    numpy.sqrt(values, out=values)
    return values
