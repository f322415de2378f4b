"""Standard exponential values from secret bytes, exact in both tails.

A value is `E = -ln U`. U is made from one 64-bit word W: `U = (W + 1/2) / 2^64`, with W uniform
over the unsigned 64-bit integers.

- U is within 2^-65 of a uniform number, so Pr(E > x) is within 2^-65 of exp(-x) for every x.
- E reaches from 2^-65 to 65 ln 2 = 45.05; a probability of 3e-20 lies beyond either end.
- U is never 0 and never 1, so E is finite and above 0 for every word.
- Rounding comes last. Float64 numbers near 1 are 2^-53 apart, which would make small values of E
  coarse and some of them 0. So 1 - U is formed in integers where it is the smaller of the two, and
  E keeps all its digits at both ends. Gumbel values, which are `-ln E`, need that.
"""

from __future__ import annotations

import numpy
from numpy.typing import NDArray

from dppipe.randomness.keystream import ByteSource, Keystream


class ExponentialStream:
    """A secret stream of standard exponential values, for permute-and-flip (`selection.py`).

    Guarantees, given a secret key that is used for nothing else:
    - Every value is an independent draw of the exponential distribution with mean 1, up to rounding
      and up to 2^-65 in the probability of any size.
    - Every value lies between 2^-65 and 45.06.
    - The same key and the same sequence of sizes yield the same values.
    """

    def __init__(self, key: bytes) -> None:
        self._keystream = Keystream(key)

    def draw(self, size: int) -> NDArray[numpy.float64]:  # -> [size]
        """Return the next `size` values."""
        return exponentials(self._keystream, size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret)"


def exponentials(source: ByteSource, size: int) -> NDArray[numpy.float64]:  # -> [size]
    """Return `size` standard exponential values, each made from the next 8 bytes of a source."""
    words = numpy.frombuffer(source.bytes(8 * size), numpy.uint64)
    large = words < 2**63  # U is below one half, so E is above ln 2
    # The complement of a word, 2^64 - 1 - W, yields 1 - U as the word itself yields U.
    distance = (numpy.where(large, words, ~words).astype(numpy.float64) + 0.5) * 2.0**-64
    return numpy.where(large, -numpy.log(distance), -numpy.log1p(-distance))
