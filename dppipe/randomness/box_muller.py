"""The Box-Muller transform (1958) from random bits to normal values, with a radius from 64 bits.

Two independent normal values are `R cos A` and `R sin A`, with A uniform on the circle and
`R = sqrt(-2 ln U)`, U uniform on (0, 1). The smallest U alone decides the largest value, so U is
made from a whole 64-bit word W:

    U = (|W| + 1/2) / 2^63,    W uniform over the signed 64-bit integers.

- Let w be uniform on [-2^63, 2^63) with floor W. Then U is within 3/2 * 2^-63 of |w| / 2^63, which
  is uniform. So Pr(R > x) is within 2^-62 of exp(-x^2 / 2) for every x.
- R reaches sqrt(128 ln 2) = 9.42; a probability of 1e-19 lies beyond.
- U is never 0 and never above 1, so R is finite for every word.
- Rounding comes last: U is rounded relative to its own size, so the tail keeps all its digits.
  (A float32 uniform in [2^-24, 1), by contrast, ends at 5.77: what lies beyond is a leak.)
- The angle has 32 bits in float32 and 64 bits in float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy
from numpy.typing import NDArray

from dppipe.randomness.keystream import SLACK, Keystream


def bytes_needed(values: int, dtype: numpy.dtype[Any]) -> int:
    """Return the number of random bytes for so many values.

    Each pair of values takes 8 bytes for the radius and 4 or 8 for the angle.
    """
    return (values + 1) // 2 * (8 + dtype.itemsize)


class NormalDraws:
    """Normal values, drawn block by block.

    The buffers are kept between draws: allocating them anew would cost more than the values.
    """

    def __init__(self, dtype: numpy.dtype[Any], *, most: int) -> None:
        self._bits = numpy.empty(bytes_needed(most, dtype) + SLACK, numpy.uint8)
        self._values = numpy.empty(most, dtype)
        self._work = numpy.empty((2, (most + 1) // 2), dtype)

    def draw(self, keystream: Keystream, count: int, *, scale: float) -> NDArray[Any]:  # -> [count]
        """Return the next `count` values of a keystream, with standard deviation `scale`.

        The next draw overwrites them.
        """
        values = self._values[:count]
        keystream.read_into(self._bits, bytes_needed(count, values.dtype))
        normals_(values, self._bits, self._work, scale=scale)
        return values


def normals_(
    out: NDArray[Any], bits: NDArray[numpy.uint8], work: NDArray[Any], *, scale: float
) -> None:
    """Overwrite `out` with normal values of standard deviation `scale`, made from `bits`.

    Args:
        out: `[values]`, float32 or float64.
        bits: `[bytes_needed or more]`; the values are made from its first bytes.
        work: `[2, pairs or more]`, of the type of `out`: overwritten.
        scale: Must be a number of that type.
    """
    pairs = (len(out) + 1) // 2
    first = out[:pairs]
    second = out[pairs:]
    radius = work[0, :pairs]
    angle = work[1, :pairs]
    _radii_(radius, bits[: 8 * pairs].view(numpy.int64), scale=scale)
    integer = numpy.int32 if out.dtype == numpy.float32 else numpy.int64
    angle_bits = bits[8 * pairs : bytes_needed(len(out), out.dtype)].view(integer)
    numpy.copyto(angle, angle_bits, casting="unsafe")
    if out.dtype == numpy.float32:
        angle *= out.dtype.type(math.pi * 2.0**-31)
        numpy.cos(angle, out=first)
        first *= radius
        numpy.sin(angle[: len(second)], out=second)
        second *= radius[: len(second)]
    else:
        # NumPy's float64 sine and cosine are slow. Both follow from the tangent of half the angle:
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
