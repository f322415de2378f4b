"""Sums of independent losses on one grid: many distributions, each many times, convolved on circles.

Guarantee: if each distribution's delta is at least its event's at every real epsilon, then so is the result's, for the events
together. For the delta of two events is the mean, over the losses of one, of the other's delta at epsilon less that loss. This
only grows if the other's delta is replaced by that of its distribution; then the two means are exchanged, and the first's delta
is replaced. What comes out is the delta of sums of losses, where the infinite ones weigh i + j m, for i and j those of the two
and m a finite mass: over all events at most the sum of their infinite ones times the product of the masses above 1.

A sum lies outside of the window that is kept with a mass of at most a tenth of `TAIL`, and `TAIL` counts as infinite loss; what a
circle moves elsewhere only adds to what is there; and to every probability a bound on its round-off is added (`_Circles`). There
are two circles: on one, losses are tilted exponentially, which makes high ones likely, so that the bound on their round-off is
small beside their own probability and not beside 1. At each place the smaller bound is taken.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from dppipe.privacy.events.sequences import cumulative
from dppipe.privacy.pld.fft import UNIT, round_off, transform
from dppipe.privacy.pld.grid import Stage, Way
from dppipe.privacy.pld.windows import LEFT_OUT, Windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Values = TypeVar("_Values", NDArray[np.float64], NDArray[np.complex128])

TAIL = 10 * LEFT_OUT
"""What counts as infinite loss, in place of what a window leaves out; the rest is for round-off in windows, and in exponentials
that underflow."""
_MOST_KEPT = 1 << 22
"""Places of the transforms that are kept for later stages: 100 MB or so."""


def convolved(stages: Sequence[Stage]) -> Iterator[Way]:
    """Give the distribution of the sum after each stage; a stage adds its losses to all those before it."""
    *_, whole = done = list(cumulative(stages))
    windows = Windows(whole)
    slope, log_moments = windows.tilt()
    kept = [windows.of(counts) for counts in done]
    longest = max(
        *(last - first + 1 for first, last in kept), *(len(way.probabilities) for way in whole)
    )
    # Two places at least: `_Circles._mean` reads off one half and mirrors it.
    circles = _Circles(
        1 << max(1, (longest - 1).bit_length()), slope=slope, log_moments=log_moments
    )
    for stage, counts, (first, last) in zip(stages, done, kept, strict=True):
        for way, count in stage.items():
            circles.add(way, count)
        if sum(counts.values()) == 1:  # one loss is its own sum
            yield from (way for way, count in counts.items() if count)
            continue
        lowest = first + sum(count * way.lowest for way, count in counts.items())
        infinite = math.fsum(count * way.infinite for way, count in counts.items())
        mass = math.fsum(count * math.log(max(1.0, way.mass)) for way, count in counts.items())
        yield Way(lowest, circles.sums(first, last), (TAIL + infinite) * math.exp(mass))


class _Transform(NamedTuple):
    values: NDArray[
        np.complex128
    ]  # [2, size // 2 + 1]: of losses as they are, and tilted; the other half mirrors this one
    sizes: NDArray[np.float64]
    """The absolute values, and what the values may be off by."""


class _Circles:
    """Losses added up on two circles, on the second with the weight e^(slope x - log moment) for x places above their least.

    Round-off. Let A be the exact transform of a distribution's weights on either circle and A + E the computed one. By
    `fourier.py` no |E| is above `round_off` times the sum of the weights on both; let d be twice that, since `_parted` and
    absolute values are rounded too, by a few units of that sum. Multiplied out, the product of powers of the A differs from that
    of the A + E, at each place, by at most the product of powers of |A + E| + d less that of |A + E|: these are `_sizes` and the
    size of `_product`, but for the rounding of as many multiplications as there are losses. One puts `_sizes` off by a unit of
    it, and `_product` and its size by sqrt 5 each: 16 units of `_sizes` are enough. What is transformed back is off by at most
    the mean of all this, at every place; and by the transform back, whose bound is `round_off` times the mean of what goes into
    it, twice since `_joined` is rounded too. The rounding of a tilted weight is relative to it, and so are, to their sums, the
    roundings of sums of products of weights, which are all positive: they are made good by a factor, at the end. Numbers that
    underflow are below 2^-1000; a mean of sizes is not below 2^-80, since at frequency 0 they are about 1.
    """

    def __init__(self, size: int, *, slope: float, log_moments: Mapping[Way, float]) -> None:
        self._size, self._slope, self._log_moments = size, slope, log_moments
        self._product = np.ones((2, size // 2 + 1), dtype=np.complex128)
        self._sizes = np.ones((2, size // 2 + 1))
        self._transform = functools.lru_cache(maxsize=max(1, _MOST_KEPT // size))(self._transformed)
        self._count, self._moments, self._rounding = 0, [0.0], 0.0

    def add(self, way: Way, count: int) -> None:
        """Add so many losses."""
        values, sizes = self._transform(way)
        self._product = self._product * _power(values, count)
        self._sizes = self._sizes * _power(sizes, count)
        self._count += count
        self._moments.append(count * self._log_moments[way])
        exponent = self._slope * len(way.probabilities) + abs(self._log_moments[way])
        self._rounding += (
            count * (4 * exponent + 8) * UNIT
        )  # of a weight's exponent, of its exponential, and when it is undone

    def sums(self, first: int, last: int) -> NDArray[np.float64]:
        """Give the probabilities of the places from the first to the last, none of them too small."""
        found = np.conj(transform(np.conj(_joined(self._product)))) / self._size
        places = np.arange(first, last + 1)
        plain, tilted = (
            np.maximum([found.real[places % self._size], found.imag[places % self._size]], 0.0)
            + self._error()
        )
        logs = np.minimum(
            math.fsum(self._moments) - self._slope * places, 700.0
        )  # larger ones are not the smaller bound
        margin = math.exp(self._rounding + 4 * (self._slope * last + 8) * UNIT)
        return np.asarray(np.minimum(plain, tilted * np.exp(logs)) * margin)

    def _error(self) -> NDArray[np.float64]:  # -> [2, 1]
        """Give what each place of either circle may be off by."""
        absolute = np.abs(self._product)
        forth = self._mean(self._sizes - absolute)
        between = math.expm1(16 * self._count * UNIT) * self._mean(self._sizes)
        back = 2 * round_off(self._size) * float(self._mean(absolute).sum())
        return np.asarray(forth + between + back)[:, None]

    def _transformed(self, way: Way) -> _Transform:
        places = np.arange(len(way.probabilities))
        weighted = np.zeros(self._size, dtype=np.complex128)
        weighted.real[: len(places)] = way.probabilities
        weighted.imag[: len(places)] = way.probabilities * np.exp(
            self._slope * places - self._log_moments[way]
        )
        values = _parted(transform(weighted))
        return _Transform(
            values, np.abs(values) + 2 * round_off(self._size) * float(np.abs(weighted).sum())
        )

    def _mean(self, halves: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the mean over each circle, and a little more; its halves mirror each other."""
        total = 2 * halves.sum(axis=1) - halves[:, 0] - halves[:, -1]
        return np.asarray(total * (1.001 / self._size))


def _parted(both: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Give, of the transform of x + i y, that of x and that of y, up to the middle."""
    half = len(both) // 2 + 1
    mirrored = np.conj(np.roll(both[::-1], 1))
    return np.stack([(both + mirrored)[:half], -1j * (both - mirrored)[:half]]) / 2


def _joined(parts: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Undo `_parted`."""
    whole = np.concatenate([parts, np.conj(parts[:, -2:0:-1])], axis=1)
    return np.asarray(whole[0] + 1j * whole[1])


def _power(values: _Values, count: int) -> _Values:
    """Raise to a whole power by squaring."""
    result, square = np.ones_like(values), values
    while count:
        if count & 1:
            result = result * square
        count >>= 1
        square = square * square if count else square
    return result
