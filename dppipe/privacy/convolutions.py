"""Sums of independent losses on one grid: many distributions, each many times, convolved on one circle.

Guarantee: a sum of losses lies outside of the window that is kept with a probability of at most a tenth of `TAIL`, by Chernoff's
bound, and `TAIL` counts as infinite loss. What a circle as long as the window moves elsewhere only adds to what is there. So at
every epsilon the result's delta is at least the sum's, but for round-off. High losses are transformed after an exponential tilt,
which makes them likely: so round-off is small beside their own probability, not beside 1, and a margin covers it.
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
_MARGIN = 1e-11
"""Relative to each probability: more than the round-off of a tilt and its undoing."""
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
    """Losses added up on a circle, each weighted by e^(slope x - log moment) for x places above its least."""

    def __init__(self, size: int, *, slope: float, log_moments: Mapping[Way, float]) -> None:
        self._size, self._slope, self._log_moments = size, slope, log_moments
        self._product = np.ones(size // 2 + 1, dtype=np.complex128)
        self._last: tuple[Way | None, NDArray[np.complex128]] = (None, self._product)

    def add(self, way: Way, count: int) -> None:
        """Add so many losses."""
        from scipy import fft

        if self._last[0] is not way:  # of a constant schedule, made once
            weights = np.exp(self._slope * np.arange(len(way.probabilities)) - self._log_moments[way])
            self._last = (way, fft.rfft(way.probabilities * weights, self._size))
        self._product = self._product * _power(self._last[1], count)

    def sums(self, first: int, last: int) -> NDArray[np.float64]:
        """Give the weighted probabilities of the places from the first to the last."""
        from scipy import fft

        return np.asarray(np.roll(fft.irfft(self._product, self._size), -first)[: last - first + 1])


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
        logs = math.fsum(count * log_moments[way] for way, count in counts.items()) - slope * np.arange(first, last + 1)
        high = tilted.sums(first, last) * np.exp(np.minimum(logs, 0.0))
        sums = np.where(logs <= 0, high, plain.sums(first, last))  # where undoing the tilt makes errors smaller, not larger
        lowest = first + sum(count * way.lowest for way, count in counts.items())
        finite = math.fsum(count * math.log1p(-way.infinite) for way, count in counts.items())
        yield Way(lowest, sums * (1 + _MARGIN), TAIL - math.expm1(finite))


def _power(values: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
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
