"""Where sums of losses lie: by Chernoff's bound, all but `LEFT_OUT` of a sum lies within a window.

The mass at or above x is at most e^(-slope x) times the product of the means of e^(slope loss), for every slope > 0, whether
masses make up 1 or not; likewise below. So any slope will do, and only the means are subject to round-off: sums of positive
numbers, each off by less than `_ROUNDED` of itself for 2^20 places, however they are added up.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.privacy.pld.grid import Stage, Way

LEFT_OUT = 5e-16
"""The probability that a sum lies outside of its window, at most; `convolutions.py` counts ten times as much."""
_SLOPES = 24
"""How many slopes are tried on each side; every slope gives a bound."""
_STEEPEST = 600.0
"""The largest logarithm of a moment's terms: beyond, some would underflow and be missed."""
_ROUNDED = 2.0**-31
_TILT = 2 / 3
"""How far a tilt moves a sum towards its last place: low losses are closer to the untilted sum's, high ones to this."""


class Windows:
    """Where the sums of losses of some distributions lie."""

    def __init__(self, whole: Stage) -> None:
        self._whole = whole
        longest = max(len(way.probabilities) for way in whole)
        self.variance = math.fsum(count * way.variance for way, count in whole.items())
        """About that of the whole sum, in squared intervals; no bound rests on it."""
        best = math.sqrt(2 * math.log(2 / LEFT_OUT) / max(self.variance, 1e-12))
        # The best slope is that of a Gaussian sum, or less where rare losses are far larger than the others.
        self._slopes = np.geomspace(
            min(best, 1 / longest) / 2, min(2 * best, _STEEPEST / longest), _SLOPES
        )
        rising = np.exp(
            np.outer(self._slopes, np.arange(longest) - (longest - 1.0))
        )  # [slopes, places], at most 1
        self._logs = {way: self._log_moments(way, rising) for way in whole}

    def _log_moments(
        self, way: Way, rising: NDArray[np.float64]
    ) -> NDArray[np.float64]:  # -> [2, slopes]
        """Bound the logarithms of the means of e^(slope x) and e^(-slope x), where x counts intervals from the least loss."""
        size, longest = len(way.probabilities), rising.shape[1]
        upward = rising[:, longest - size :] @ way.probabilities  # of x - (size - 1)
        downward = rising[:, longest - size :] @ way.probabilities[::-1]  # of -x
        return np.stack([np.log(upward) + self._slopes * (size - 1), np.log(downward)]) + _ROUNDED

    def of(self, counts: Stage) -> tuple[int, int]:
        """Give the first and the last place, counted from the sum of the least losses, of all but `LEFT_OUT` of a sum."""
        if not counts:
            return 0, 0
        logs = sum(
            (count * self._logs[way] for way, count in counts.items()),
            start=np.zeros((2, len(self._slopes))),
        )
        bounds = (logs + math.log(2 / LEFT_OUT)) / self._slopes
        last = sum(count * (len(way.probabilities) - 1) for way, count in counts.items())
        return max(0, math.floor(-bounds[1].min())), min(last, math.ceil(bounds[0].min()))

    @property
    def length(self) -> int:
        """The places that the whole sum needs."""
        first, last = self.of(self._whole)
        return last - first + 1

    def tilt(self) -> tuple[float, dict[Way, float]]:
        """Give a slope that moves the whole sum about `_TILT` of the way to its last place, and the log moments there."""
        logs = sum(
            (count * self._logs[way][0] for way, count in self._whole.items()),
            start=np.zeros(len(self._slopes)),
        )
        steepest = self._slopes[int(np.argmin((logs + math.log(2 / LEFT_OUT)) / self._slopes))]
        place = int(np.argmin(np.abs(np.log(self._slopes / (steepest * _TILT)))))
        return float(self._slopes[place]), {
            way: float(self._logs[way][0][place]) for way in self._whole
        }
