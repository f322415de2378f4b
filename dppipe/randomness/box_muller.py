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

from dppipe.randomness.keystream import SLACK, Keystream


def bytes_needed(values: int, dtype: numpy.dtype[Any]) -> int:
    """Give how many random bytes so many values are made from: for each pair, a radius of 8 and an angle of 4 or 8."""
    return (values + 1) // 2 * (8 + dtype.itemsize)


class NormalDraws:
    """Normal values, block by block, with the memory they are made in: fresh memory would cost more than the values."""

    def __init__(self, dtype: numpy.dtype[Any], *, most: int) -> None:
        self._bits = numpy.empty(bytes_needed(most, dtype) + SLACK, numpy.uint8)
        self._values, self._work = (
            numpy.empty(most, dtype),
            numpy.empty((2, (most + 1) // 2), dtype),
        )

    def draw(
        self, keystream: Keystream, count: int, *, scale: float
    ) -> NDArray[Any]:  # -> [count], until the next draw
        """Give the next `count` values of a keystream, with standard deviation `scale`."""
        values = self._values[:count]
        keystream.read_into(self._bits, bytes_needed(count, values.dtype))
        normals_(values, self._bits, self._work, scale=scale)
        return values


def normals_(
    out: NDArray[Any], bits: NDArray[numpy.uint8], work: NDArray[Any], *, scale: float
) -> None:
    """Overwrite `out` with normal values of standard deviation `scale`, made from the front of `bits`.

    Args:
        out: `[values]`, float32 or float64.
        bits: `[bytes_needed or more]`.
        work: `[2, pairs or more]`, of the type of `out`: overwritten.
        scale: Must be a number of that type.
    """
    pairs = (len(out) + 1) // 2
    first, second = out[:pairs], out[pairs:]
    radius, angle = work[0, :pairs], work[1, :pairs]
    _radii_(radius, bits[: 8 * pairs].view(numpy.int64), scale=scale)
    numbers = numpy.int32 if out.dtype == numpy.float32 else numpy.int64
    numpy.copyto(
        angle, bits[8 * pairs : bytes_needed(len(out), out.dtype)].view(numbers), casting="unsafe"
    )
    if out.dtype == numpy.float32:
        angle *= out.dtype.type(math.pi * 2.0**-31)
        numpy.cos(angle, out=first)
        first *= radius
        numpy.sin(angle[: len(second)], out=second)
        second *= radius[: len(second)]
    else:
        # NumPy's float64 sine and cosine are slow; both follow from one tangent of half the angle:
        # cos = 2 / (1 + tan^2) - 1 and sin = 2 tan / (1 + tan^2).
        angle *= math.pi * 2.0**-64
        tangent = numpy.tan(angle, out=angle)
        numpy.multiply(tangent, tangent, out=first)
        first += 1
        numpy.divide(radius, first, out=first)
        first *= 2
        numpy.multiply(first[: len(second)], tangent[: len(second)], out=second)
        first -= radius


def _radii_(out: NDArray[Any], words: NDArray[numpy.int64], *, scale: float) -> None:
    number = out.dtype.type
    numpy.copyto(out, words, casting="unsafe")
    numpy.abs(out, out=out)
    out *= number(2.0**-63)
    out += number(2.0**-64)
    numpy.log(out, out=out)
    out *= number(-2)
    numpy.sqrt(out, out=out)
    out *= number(scale)
