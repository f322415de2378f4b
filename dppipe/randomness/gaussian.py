"""Gaussian noise for gradients, from secret bytes, with tails that reach 9.4 standard deviations.

`GaussianStream.add_` is what the private step calls, once a release, on one flat buffer. The values are drawn on the CPU in
blocks that stay in its cache, by one thread: a second one gained nothing right after a backward pass, whose own threads still
spin, and lost much where another job held a core. Other devices get copies of the blocks; a source that draws on the device
itself needs only the method of `NoiseSource`. Read next: `box_muller.py` for the distribution, `benchmarks/noise.py`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy

from dppipe.randomness.box_muller import NormalDraws
from dppipe.randomness.keystream import Keystream

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = (
    1 << 17
)  # values drawn at once: large enough to pay for Python's share, small enough for the cache
LEAST_STD, LARGEST_STD = 2.0**-100, 2.0**100
"""The standard deviations that can be drawn."""
SECURE_LARGEST_MULTIPLIER = 2.0**10
"""The largest noise multiplier that the guarantee of a secure stream covers."""


class NoiseSource(Protocol):
    """What the private step needs of a source of noise."""

    def add_(self, flat: Tensor, std: float, *, over: float = 1.0) -> Tensor:
        """Add independent noise of this standard deviation to every value of a 1-D tensor, then divide by `over`, in place."""
        ...


class GaussianStream:
    """A secret stream of Gaussian noise.

    Guarantee: given a secret key that is used for nothing else, every value that it adds is an independent draw of
    N(0, std^2), but for the rounding of the buffer's precision (which never lowers `std`) and 2^-62 in the probability of
    any radius. No value is infinite or NaN. The same key and the same sequence of sizes and precisions give the same values,
    on any device and whatever the number of threads.
    """

    def __init__(self, key: bytes, *, secure: bool = False) -> None:
        self._keystream = Keystream(key)
        self._memory: dict[numpy.dtype[Any], NormalDraws] = {}
        self.secure = secure

    def add_(self, flat: Tensor, std: float, *, over: float = 1.0) -> Tensor:
        """Add noise to a 1-D tensor of sums, in place, then divide by `over`, block by block while they are in cache.

        Guarantee: in a secure stream, a call is one release. With x the sums, d of them, both x and the noise are rounded to
        the grid `g = 2^floor(log2 std) / 2^36`, so what is released is a function of `round(x) + Z` alone, where rounding has
        raised the sensitivity C by at most `g sqrt(d)`, and Z has standard deviation `std (1 + 2^-26 sqrt(d))`: enough for
        `std = z C` as long as `z <= 2^10`.
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
        room = numpy.empty(min(_BLOCK, flat.numel()))
        for part in torch.split(flat.detach(), _BLOCK):
            noise = room[: len(part)]
            noise[:] = 0
            for _ in range(4):
                noise += draws.draw(self._keystream, len(part), scale=scale / 2)
            moved = torch.from_numpy(numpy.rint(noise, out=noise)).to(part.device)
            part.copy_((part.double() / grid).round_().add_(moved).mul_(grid))
            part /= over
        return flat

    def _draws(self, dtype: numpy.dtype[Any]) -> NormalDraws:
        if dtype not in self._memory:
            self._memory[dtype] = NormalDraws(dtype, most=_BLOCK)
        return self._memory[dtype]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret, secure={self.secure})"


def checked_dtype(flat: Tensor, std: float) -> numpy.dtype[Any]:
    """Give a buffer's type; refuse a buffer or a size of noise that can't be served."""
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
