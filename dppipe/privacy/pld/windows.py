"""Where sums of losses lie: all but `LEFT_OUT` of a sum lies within a window (`PROOF.md`, lemma 9).

The bound is Chernoff's. Every slope gives a bound, so the search for a slope needs no proof.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.privacy.pld.grid import LossPmf, Stage

LEFT_OUT = 5e-16
"""The probability that a sum lies outside of its window, at most; `convolution.py` counts ten
times as much."""
_SLOPES = 24
"""How many slopes are tried on each side."""
_STEEPEST = 600.0
"""The largest logarithm of a moment's terms: beyond, some would underflow and be missed."""
_ROUNDED = 2.0**-31
"""More than the relative round-off of a moment: a sum of up to 2^20 positive numbers."""
_TILT = 2 / 3
"""How far a tilt moves a sum towards its last place: low losses are closer to the untilted sum's,
high ones to this."""


class Windows:
    """Where the sums of losses of some distributions lie."""

    def __init__(self, whole: Stage) -> None:
        self._whole = whole
        longest = max(len(pmf.probabilities) for pmf in whole)
        self.variance = math.fsum(count * pmf.variance for pmf, count in whole.items())
        """About that of the whole sum, in squared intervals; no bound rests on it."""
        # The best slope is that of a Gaussian sum, or less where rare losses are far larger.
        best = math.sqrt(2 * math.log(2 / LEFT_OUT) / max(self.variance, 1e-12))
        flattest = min(best, 1 / longest) / 2
        steepest = min(2 * best, _STEEPEST / longest)
        self._slopes = np.geomspace(flattest, steepest, _SLOPES)
        # [slopes, places], at most 1
        rising = np.exp(np.outer(self._slopes, np.arange(longest) - (longest - 1.0)))
        self._logs = {pmf: self._log_moments(pmf, rising) for pmf in whole}

    def _log_moments(
        self, pmf: LossPmf, rising: NDArray[np.float64]
    ) -> NDArray[np.float64]:  # -> [2, slopes]
        """Bound the logarithms of the means of e^(slope x) and e^(-slope x).

        Here x counts intervals from the least loss.
        """
        size = len(pmf.probabilities)
        last = rising[:, rising.shape[1] - size :]
        upward = last @ pmf.probabilities  # of x - (size - 1)
        downward = last @ pmf.probabilities[::-1]  # of -x
        return np.stack([np.log(upward) + self._slopes * (size - 1), np.log(downward)]) + _ROUNDED

    def of(self, counts: Stage) -> tuple[int, int]:
        """Return the first and the last place of all but `LEFT_OUT` of a sum.

        Places are counted from the sum of the least losses.
        """
        if not counts:
            return 0, 0
        logs = np.zeros((2, len(self._slopes)))
        furthest = 0
        for pmf, count in counts.items():
            logs = logs + count * self._logs[pmf]
            furthest += count * (len(pmf.probabilities) - 1)
        bounds = (logs + math.log(2 / LEFT_OUT)) / self._slopes
        first = max(0, math.floor(-bounds[1].min()))
        last = min(furthest, math.ceil(bounds[0].min()))
        return first, last

    @property
    def length(self) -> int:
        """The places that the whole sum needs."""
        first, last = self.of(self._whole)
        return last - first + 1

    def tilt(self) -> tuple[float, dict[LossPmf, float]]:
        """Return a slope for tilting, and the log moment of each distribution at it.

        The slope moves the whole sum about `_TILT` of the way to its last place.
        """
        logs = np.zeros(len(self._slopes))
        for pmf, count in self._whole.items():
            logs = logs + count * self._logs[pmf][0]
        steepest = self._slopes[int(np.argmin((logs + math.log(2 / LEFT_OUT)) / self._slopes))]
        place = int(np.argmin(np.abs(np.log(self._slopes / (steepest * _TILT)))))
        log_moments = {pmf: float(self._logs[pmf][0][place]) for pmf in self._whole}
        return float(self._slopes[place]), log_moments
