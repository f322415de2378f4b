"""Gaussian noise for gradients, from secret bytes, with tails that reach 9.4 standard deviations.

The private step calls `GaussianStream.add_` once for each release, on one flat buffer. One thread
draws the values on the CPU, in blocks that stay in its cache. A second thread gained nothing right
after a backward pass, whose own threads still spin, and lost much where another job used a core.
Other devices get copies of the blocks; a source that draws on the device itself needs only the
method of `NoiseSource`. Read next: `box_muller.py` for the distribution, `benchmarks/noise.py`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy

from dppipe.randomness.box_muller import NormalDraws
from dppipe.randomness.keystream import Keystream

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = 1 << 17
"""Values drawn at once: enough to hide the cost of Python, few enough for the cache."""
LEAST_STD = 2.0**-100
"""The smallest standard deviation that can be drawn."""
LARGEST_STD = 2.0**100
"""The largest standard deviation that can be drawn."""
SECURE_LARGEST_MULTIPLIER = 2.0**10
"""The largest noise multiplier that the guarantee of a secure stream covers."""


class NoiseSource(Protocol):
    """What the private step needs of a source of noise."""

    def add_(self, flat: Tensor, std: float, *, over: float = 1.0) -> Tensor:
        """Add independent noise to every value of a 1-D tensor, then divide by `over`, in place.

        `std` is the noise's standard deviation.
        """
        ...


class GaussianStream:
    """A secret stream of Gaussian noise.

    Guarantees, given a secret key that is used for nothing else:
    - Every added value is an independent draw of N(0, std^2), up to rounding to the buffer's
      precision (which never lowers `std`) and up to 2^-62 in the probability of any radius.
    - No value is infinite or NaN.
    - The same key and the same sequence of sizes and precisions yield the same values, on any
      device and with any number of threads.
    """

    def __init__(self, key: bytes, *, secure: bool = False) -> None:
        self._keystream = Keystream(key)
        self._memory: dict[numpy.dtype[Any], NormalDraws] = {}
        self.secure = secure

    def add_(self, flat: Tensor, std: float, *, over: float = 1.0) -> Tensor:
        """Add noise to a 1-D tensor of sums, then divide by `over`, in place and block by block.

        Guarantees of a secure stream, in which each call is one release. Let x be the d sums.
        - Both x and the noise are rounded to the grid `g = 2^floor(log2 std) / 2^36`. So the
          release is a function of `round(x) + Z` alone.
        - Rounding raises the sensitivity C by at most `g sqrt(d)`. Z has standard deviation
          `std (1 + 2^-26 sqrt(d))`, which is enough for `std = z C` as long as `z <= 2^10`.
        """
        return self._add_on_grid(flat, std, over) if self.secure else self._add(flat, std, over)

    def _add(self, flat: Tensor, std: float, over: float) -> Tensor:
        import torch

        dtype = checked_dtype(flat, std)
        scale = dtype.type(std)
        if float(scale) < std:  # rounding to float32 must not lower the noise
            scale = numpy.nextafter(scale, dtype.type(math.inf))
        draws = self._draws(dtype)
        for part in torch.split(flat.detach(), _BLOCK):
            noise = draws.draw(self._keystream, len(part), scale=scale)
            part.add_(torch.from_numpy(noise).to(part.device)).div_(over)
        return flat

    def _add_on_grid(self, flat: Tensor, std: float, over: float) -> Tensor:
        import torch

        checked_dtype(flat, std)
        grid = 2.0 ** (math.floor(math.log2(std)) - 36)
        scale = std / grid * (1 + 2.0**-26 * math.sqrt(flat.numel()))
        draws = self._draws(numpy.dtype(numpy.float64))
        buffer = numpy.empty(min(_BLOCK, flat.numel()))
        for part in torch.split(flat.detach(), _BLOCK):
            noise = buffer[: len(part)]
            noise[:] = 0
            for _ in range(4):
                noise += draws.draw(self._keystream, len(part), scale=scale / 2)
            rounded = torch.from_numpy(numpy.rint(noise, out=noise)).to(part.device)
            part.copy_((part.double() / grid).round_().add_(rounded).mul_(grid))
            part /= over
        return flat

    def _draws(self, dtype: numpy.dtype[Any]) -> NormalDraws:
        if dtype not in self._memory:
            self._memory[dtype] = NormalDraws(dtype, most=_BLOCK)
        return self._memory[dtype]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret, secure={self.secure})"


def checked_dtype(flat: Tensor, std: float) -> numpy.dtype[Any]:
    """Return a buffer's NumPy type; refuse buffers and standard deviations that can't be used."""
    name = str(flat.dtype).removeprefix("torch.")
    if flat.dim() != 1 or name not in ("float32", "float64"):
        raise ValueError(
            f"noise: expected a 1-D tensor of float32 or float64, got {flat.dim()}-D of {name}"
        )
    if not LEAST_STD <= std <= LARGEST_STD:
        raise ValueError(
            f"noise: expected a standard deviation between 2^-100 and 2^100, got {std}"
        )
    return numpy.dtype(name)
