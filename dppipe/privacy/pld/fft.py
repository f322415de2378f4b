"""A discrete Fourier transform of float64 numbers with a proven bound on its round-off.

It is the radix-2 transform that sorts itself (Stockham; Van Loan 1992, section 1.7). Libraries'
transforms are faster, but they don't state how far off they may be.

Guarantee: each number is off by at most `round_off(n)` times the sum of the absolute values of the
input (underflow aside, which adds less than n 2^-1060). See `PROOF.md`, lemma 10.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from dppipe.privacy.rounding import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WEIGHT = 16 * UNIT
"""An angle below pi is off by 4.3 units: pi itself by 0.4, the product by 1, both relative; sine
and cosine are off by less than 8."""
_LEVEL = _WEIGHT + 4 * UNIT
"""A difference adds 1 unit and a product sqrt 5; products of units are far below the rest."""


def transform(values: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return the sums of values[t] e^(-2 pi i j t / n) for all j below n, a power of two."""
    size = len(values)
    weights = _weights(size)
    done = size
    turn = 1
    while done > 1:
        done //= 2
        low, high = values.reshape(2, done, turn)
        both = np.empty((done, 2, turn), dtype=np.complex128)
        np.add(low, high, out=both[:, 0])
        np.multiply(low - high, weights[::turn, None], out=both[:, 1])
        values = both
        turn *= 2
    return values.reshape(size)


def round_off(size: int) -> float:
    """Return how far off each number may be, relative to the sum of the input's absolute values."""
    return math.expm1(size.bit_length() * math.log1p(_LEVEL))  # one level more than there are


@functools.lru_cache(maxsize=2)
def _weights(size: int) -> NDArray[np.complex128]:
    angles = np.pi * (np.arange(size // 2) * (2 / size))  # the factor 2/n is a power of two
    return np.asarray(np.cos(angles) - 1j * np.sin(angles))
