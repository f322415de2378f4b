"""Laplace noise for gradients, from secret bytes, for releases that are private with delta 0.

A value is a sign times `-scale ln U`. Sign and U are made from one 64-bit word W: the number
`U = (|W| + 1/2) / 2^63` is within 3/2 * 2^-63 of a uniform one, never 0 and never above 1. So the
tail reaches 44 scales; a probability of 1e-19 lies beyond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from dppipe.randomness.gaussian import checked_dtype
from dppipe.randomness.keystream import Keystream

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = 1 << 17


class LaplaceStream:
    """A secret stream of Laplace noise.

    Guarantees, given a secret key that is used for nothing else:
    - Every added value is an independent draw of the Laplace distribution with the given scale,
      up to rounding and up to 2^-62 in the probability of any size.
    - No value is infinite or NaN.
    """

    def __init__(self, key: bytes) -> None:
        self._keystream = Keystream(key)

    def add_(self, flat: Tensor, std: float, *, over: float = 1.0) -> Tensor:
        """Add noise to a 1-D tensor of sums and divide by `over`, in place.

        `std` is the distribution's scale, which is sqrt(1/2) standard deviations.
        """
        import torch

        checked_dtype(flat, std)
        for part in torch.split(flat.detach(), _BLOCK):
            noise = torch.from_numpy(self._draw(len(part)) * std)
            part.copy_(part.double() + noise.to(part.device))
            part /= over
        return flat

    def _draw(self, size: int) -> NDArray[numpy.float64]:
        words: NDArray[Any] = numpy.frombuffer(self._keystream.bytes(8 * size), numpy.int64)
        uniform = (numpy.abs(words.astype(numpy.float64)) + 0.5) * 2.0**-63
        # A word that is rounded up to 2^63 yields a noise of 0.
        return numpy.where(words < 0, numpy.log(uniform), -numpy.log(uniform))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret)"
