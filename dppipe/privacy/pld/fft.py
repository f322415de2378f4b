"""A discrete Fourier transform of float64 numbers with a proven bound on its round-off.

It is the one of radix 2 that sorts itself (Stockham; Van Loan 1992, section 1.7): log2 n levels, each of which takes pairs of
numbers a, b to a + b and (a - b) w with |w| = 1. In float64 a sum comes out times 1 + eta with |eta| at most one unit u = 2^-53,
a product of complex numbers with sqrt 5 units (Brent, Percival and Zimmermann 2007; 2 with fused multiply-add, Jeannerod et al.
2017), a weight w with `_WEIGHT`: together at most `_LEVEL` at each level. Each number of the result is the sum of all values
times weights, and now of factors 1 + eta too, one for each level: so it is off by at most the sum of the values' sizes times
(1 + `_LEVEL`)^levels - 1.

Guarantee: each number is off by at most `round_off(n)` times the sum of the absolute values of what is transformed (underflow
aside, which adds less than n 2^-1060). Transforms of libraries are faster; how far off they may be is written nowhere.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNIT = 2.0**-53
"""How far off the nearest float64 may be, relative to a number."""
_WEIGHT = 16 * UNIT
"""An angle below pi is off by 4.3 units: pi itself by 0.4, the product by 1, both relative, sine and cosine by less than 8."""
_LEVEL = (
    _WEIGHT + 4 * UNIT
)  # a difference, 1, and a product, sqrt 5; products of units are far below the rest


def transform(values: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Give the sums of values[t] e^(-2 pi i j t / n) for all j below n, a power of two."""
    size = done = len(values)
    weights, turn = _weights(size), 1
    while done > 1:
        done //= 2
        low, high = values.reshape(2, done, turn)
        both = np.empty((done, 2, turn), dtype=np.complex128)
        np.add(low, high, out=both[:, 0])
        np.multiply(low - high, weights[::turn, None], out=both[:, 1])
        values, turn = both, 2 * turn
    return values.reshape(size)


def round_off(size: int) -> float:
    """Give what each number of a transform may be off by, relative to the sum of the absolute values of what is transformed."""
    return math.expm1(size.bit_length() * math.log1p(_LEVEL))  # one level more than there are


@functools.lru_cache(maxsize=2)
def _weights(size: int) -> NDArray[np.complex128]:
    angles = np.pi * (np.arange(size // 2) * (2 / size))  # the factor 2/n is a power of two
    return np.asarray(np.cos(angles) - 1j * np.sin(angles))
