"""Spherical noise for vectors, from secret bytes, for releases that are private with delta 0.

The noise vector x in d dimensions has a density proportional to `exp(-|x| / scale)`, where |x| is
the Euclidean norm. So its direction is uniform on the sphere, and its norm has the distribution
Gamma(d, scale), which is that of a sum of d exponential values. In one dimension it is Laplace
noise.

- The norm is the sum of d values of `exponential.py`: Pr(|x| > r) is within d 2^-65 of the exact
  probability for every r, and each of the values reaches 45 scales.
- The direction is that of d normal values of `box_muller.py`, drawn in float64: each pair of them
  has an angle of 64 bits, and a radius within 2^-62 in probability.
- A vector takes 16 d + 8 bytes at most: some milliseconds for d = 1e5.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from dppipe.randomness.box_muller import NormalDraws
from dppipe.randomness.exponential import exponentials
from dppipe.randomness.gaussian import checked_dtype
from dppipe.randomness.keystream import Keystream

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = 1 << 17


class SphericalStream:
    """A secret stream of vectors with uniform direction and Gamma-distributed norm.

    Guarantees, given a secret key that is used for nothing else:
    - Every vector is an independent draw of the density proportional to exp(-|x| / scale), up to
      rounding, up to d 2^-65 in the probability of any norm, and up to 2^-62 in that of the radius
      of any pair of normal values which its direction is made from.
    - With a scale of `sensitivity / epsilon`, adding one vector to sums that neighbours change by
      at most `sensitivity` in Euclidean norm is epsilon-differentially private: by the triangle
      inequality densities differ by a factor of exp(epsilon) at most (Chaudhuri, Monteleoni and
      Sarwate 2011). Low-order digits of floating-point numbers are not covered.
    - No value is infinite or NaN.
    - The same key and the same sequence of sizes yield the same vectors.
    """

    def __init__(self, key: bytes) -> None:
        self._keystream = Keystream(key)

    def add_(self, flat: Tensor, std: float, *, over: float = 1.0) -> Tensor:
        """Add one vector of noise to a 1-D tensor of sums and divide by `over`, in place.

        `std` is the density's scale. A value's standard deviation is sqrt(d + 1) scales.
        """
        import torch

        checked_dtype(flat, std)
        noise = torch.from_numpy(self.draw(flat.numel()) * std)
        for part, part_noise in zip(
            torch.split(flat.detach(), _BLOCK), torch.split(noise, _BLOCK), strict=True
        ):
            part.copy_(part.double() + part_noise.to(part.device))
            part /= over
        return flat

    def draw(self, dimensions: int) -> NDArray[numpy.float64]:  # -> [dimensions]
        """Return the next vector, with scale 1."""
        length = 0.0
        vector = numpy.empty(0)
        while dimensions and length == 0:  # a vector of zeros has no direction; it is drawn again
            vector = self._normals(dimensions)
            length = math.sqrt(numpy.square(vector).sum())
        return vector * (self._norm(dimensions) / (length or 1.0))

    def _normals(self, dimensions: int) -> NDArray[numpy.float64]:
        draws = NormalDraws(numpy.dtype(numpy.float64), most=min(dimensions, _BLOCK))
        vector = numpy.empty(dimensions)
        for start in range(0, dimensions, _BLOCK):
            part = vector[start : start + _BLOCK]
            part[:] = draws.draw(self._keystream, len(part), scale=1.0)
        return vector

    def _norm(self, dimensions: int) -> float:
        norm = 0.0
        for start in range(0, dimensions, _BLOCK):
            count = min(_BLOCK, dimensions - start)
            norm += float(exponentials(self._keystream, count).sum())
        return norm

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret)"
