"""Standard Gumbel values from secret bytes, for the exponential mechanism.

A value is `G = -ln E` with E standard exponential (`exponential.py`), made from one 64-bit word.

- Pr(G <= x) is within 2^-65 of exp(-exp(-x)) for every x.
- G reaches from -ln(65 ln 2) = -3.81 to 65 ln 2 = 45.05; a probability of 3e-20 lies beyond either
  end. The lower end is near because that tail falls doubly exponentially.
- E is never 0, so G is finite for every word. (`-ln(-ln U)` with U in float64, by contrast, ends
  at 36.7 above, is coarse long before, and is infinite once U is rounded to 1.)
"""

from __future__ import annotations

import numpy
from numpy.typing import NDArray

from dppipe.randomness.exponential import exponentials
from dppipe.randomness.keystream import Keystream


class GumbelStream:
    """A secret stream of standard Gumbel values, for the exponential mechanism (`selection.py`).

    Guarantees, given a secret key that is used for nothing else:
    - Every value is an independent draw of the standard Gumbel distribution, up to rounding and up
      to 2^-65 in the probability of any interval that is open to one side.
    - Every value lies between -3.81 and 45.06.
    - The same key and the same sequence of sizes yield the same values.
    """

    def __init__(self, key: bytes) -> None:
        self._keystream = Keystream(key)

    def draw(self, size: int) -> NDArray[numpy.float64]:  # -> [size]
        """Return the next `size` values."""
        return -numpy.log(exponentials(self._keystream, size))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret)"
