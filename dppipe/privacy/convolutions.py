"""Sums of independent losses on one grid: many distributions, each many times, convolved on one circle.

Guarantee: at every epsilon the result's delta is at least the sum's. A sum lies outside of the window that is kept with a
probability of at most a tenth of `TAIL`, by Chernoff's bound, and `TAIL` counts as infinite loss; what a circle as long as the
window moves elsewhere only adds to what is there; and to every probability a bound on its round-off is added (`_Circle`). High
losses are transformed after an exponential tilt, which makes them likely: so that bound is small beside their own probability,
not beside 1. It rests on the error of a fast Fourier transform of radix 2 (Higham 2002, theorem 24.2); that SciPy's mixed radices
keep to the same constant for each doubling is assumed, not proven.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dppipe.privacy.steps import cumulative

if TYPE_CHECKING:
    from numpy.typing import NDArray

TAIL = 1e-14
"""What counts as infinite loss, in place of what a window leaves out, and more."""
_HIGH_POWER = 100
_UNIT = float(np.finfo(np.longdouble).eps) / 2  # 2^-64 on most machines: transforms are taken in extended precision
_TRANSFORM = 8 * _UNIT
"""Of a transform's norm, for each doubling of its size; Higham's constant is below 7 units."""
_LEFT_OUT = TAIL / 10
_SLOPES = 24
"""How many slopes are tried on each side; every slope gives a bound."""
_STEEPEST = 600.0
"""The largest logarithm of a moment's terms: beyond, some would underflow and be missed."""


@dataclass(frozen=True, eq=False)
class Way:
    """The losses of an event in one direction of neighbouring data sets: finite ones on the grid, and infinite loss."""

    lowest: int
    """The least loss, in intervals of the grid."""
    probabilities: NDArray[np.float64]
    infinite: float
    """The probability of infinite loss."""

    @property
    def variance(self) -> float:
        """The variance of the finite losses, in squared intervals."""
        places = np.arange(len(self.probabilities))
        mean = float(np.dot(places, self.probabilities))
        return float(np.dot((places - mean) ** 2, self.probabilities))


Stage = Mapping[Way, int]
"""Distributions, and how many independent losses of each are added."""


class Windows:
    """Where the sums of losses of some distributions lie."""

    def __init__(self, whole: Stage) -> None:
        self._whole = whole
        longest = max(len(way.probabilities) for way in whole)
        variance = math.fsum(count * way.variance for way, count in whole.items())
        best = math.sqrt(2 * math.log(2 / _LEFT_OUT) / max(variance, 1e-12))
        # The best slope is that of a Gaussian sum, or less where rare losses are far larger than the others.
        self._slopes = np.geomspace(min(best, 1 / longest) / 2, min(2 * best, _STEEPEST / longest), _SLOPES)
        rising = np.exp(np.outer(self._slopes, np.arange(longest) - (longest - 1.0)))  # [slopes, places], at most 1
        self._logs = {way: self._log_moments(way, rising) for way in whole}

    def _log_moments(self, way: Way, rising: NDArray[np.float64]) -> NDArray[np.float64]:  # -> [2, slopes]
        """Give the logarithms of the mean of e^(slope x) and of e^(-slope x), where x counts intervals from the least loss."""
        size, longest = len(way.probabilities), rising.shape[1]
        upward = rising[:, longest - size :] @ way.probabilities  # of x - (size - 1)
        downward = rising[:, longest - size :] @ way.probabilities[::-1]  # of -x
        return np.stack([np.log(upward) + self._slopes * (size - 1), np.log(downward)])

    def of(self, counts: Stage) -> tuple[int, int]:
        """Give the first and the last place, counted from the sum of the least losses, of all but a tenth of `TAIL` of a sum."""
        if not counts:
            return 0, 0
        logs = sum((count * self._logs[way] for way, count in counts.items()), start=np.zeros((2, len(self._slopes))))
        bounds = (logs + math.log(2 / _LEFT_OUT)) / self._slopes
        last = sum(count * (len(way.probabilities) - 1) for way, count in counts.items())
        return max(0, math.floor(-bounds[1].min())), min(last, math.ceil(bounds[0].min()))

    @property
    def length(self) -> int:
        """The places that the whole sum needs."""
        first, last = self.of(self._whole)
        return last - first + 1

    def tilt(self) -> tuple[float, dict[Way, float]]:
        """Give a slope that moves the whole sum about half-way to its last place, and the logarithm of each moment there."""
        logs = sum((count * self._logs[way][0] for way, count in self._whole.items()), start=np.zeros(len(self._slopes)))
        steepest = self._slopes[int(np.argmin((logs + math.log(2 / _LEFT_OUT)) / self._slopes))]
        place = int(np.argmin(np.abs(np.log(self._slopes / (steepest / 2)))))
        return float(self._slopes[place]), {way: float(self._logs[way][0][place]) for way in self._whole}


class _Circle:
    """Losses added up on a circle, each weighted by e^(slope x - log moment) for x places above its least.

    Round-off: the weights of one distribution add up to 1 or less, so its transform A is at most 1 in size. What is computed is
    off by `d`: by the rounding of its weights, and by the transform's own error, at most `_TRANSFORM * log2 n` of the norm
    sqrt(n) |a|. So k of them, A^k, are off by k d and the rounding of a power, products by the sum of these, and the transform
    back of values that are off by E is off by E at every place, and by its own error.
    """

    def __init__(self, size: int, *, slope: float, log_moments: Mapping[Way, float]) -> None:
        self._size, self._slope, self._log_moments = size, slope, log_moments
        self._product = np.ones(size // 2 + 1, dtype=np.clongdouble)
        self._last: tuple[Way | None, NDArray[np.clongdouble], float] = (None, self._product, 0.0)
        self._error = 0.0

    def add(self, way: Way, count: int) -> None:
        """Add so many losses."""
        from scipy import fft

        if self._last[0] is not way:  # of a constant schedule, made once
            places, log_moment = np.arange(len(way.probabilities), dtype=np.longdouble), self._log_moments[way]
            weighted = way.probabilities * np.exp(self._slope * places - log_moment)
            rounding = (2 * self._slope * len(places) + abs(log_moment) + 8) * _UNIT
            transform = _TRANSFORM * math.log2(self._size) * math.sqrt(self._size) * float(np.linalg.norm(weighted))
            self._last = (way, fft.rfft(weighted, self._size), rounding + transform)
        self._product = self._product * _power(self._last[1], count)
        self._error += count * (self._last[2] + 16 * _UNIT) + 4 * _UNIT

    def sums(self, first: int, last: int) -> NDArray[np.longdouble]:
        """Give the weighted probabilities of the places from the first to the last, none of them too small."""
        from scipy import fft

        error = 1.001 * (self._error + _TRANSFORM * math.log2(self._size))
        found = np.roll(fft.irfft(self._product, self._size), -first)[: last - first + 1]
        return np.asarray(np.maximum(found, 0.0) + error)


def convolved(stages: Sequence[Stage]) -> Iterator[Way]:
    """Give the distribution of the sum after each stage; a stage adds its losses to all those before it."""
    from scipy import fft

    *_, whole = done = list(cumulative(stages))
    windows = Windows(whole)
    slope, log_moments = windows.tilt()
    kept = [windows.of(counts) for counts in done]
    longest = max(*(last - first + 1 for first, last in kept), *(len(way.probabilities) for way in whole))
    size = fft.next_fast_len(longest, real=True)
    plain = _Circle(size, slope=0.0, log_moments=dict.fromkeys(whole, 0.0))
    tilted = _Circle(size, slope=slope, log_moments=log_moments)
    for stage, counts, (first, last) in zip(stages, done, kept, strict=True):
        for way, count in stage.items():
            plain.add(way, count)
            tilted.add(way, count)
        moment = math.fsum(count * log_moments[way] for way, count in counts.items())
        logs = moment - slope * np.arange(first, last + 1, dtype=np.longdouble)
        high = tilted.sums(first, last) * np.exp(np.minimum(logs, 0.0))
        sums = np.where(logs <= 0, high, plain.sums(first, last))  # where undoing the tilt makes errors smaller, not larger
        lowest = first + sum(count * way.lowest for way, count in counts.items())
        finite = math.fsum(count * math.log1p(-way.infinite) for way, count in counts.items())
        # The rounding of the logarithms, of their exponentials, and of the result to float64.
        margin = 1 + 4 * (abs(moment) + slope * last + 8) * _UNIT + 2.0**-51
        yield Way(lowest, (sums * margin).astype(np.float64), TAIL - math.expm1(finite))


def _power(values: NDArray[np.clongdouble], count: int) -> NDArray[np.clongdouble]:
    """Raise to a whole power: a low one by squaring, which is fast, a high one by logarithms, which are exact near 1."""
    if count >= _HIGH_POWER:
        return values**count
    result, square = np.ones_like(values), values
    while count:
        if count & 1:
            result = result * square
        count >>= 1
        square = square * square if count else square
    return result
