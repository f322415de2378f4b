"""The delta of a growing sum of losses, read off its transforms without transforming them back.

A curve needs epsilon after hundreds of steps, and at each of them delta at three or four places
only. Such a delta is one product of two transforms: that of the sum, and that of the part of a loss
above the place (Parseval).

Guarantee: `delta` is at least that of the exact sum of the given distributions, round-off included
(`PROOF.md`, lemma 18). Read next: `walk.py`, which takes the steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dppipe.privacy.pld.convolution import TAIL
from dppipe.privacy.pld.fft import round_off, transform
from dppipe.privacy.pld.intervals import one_direction
from dppipe.privacy.pld.windows import Windows
from dppipe.privacy.rounding import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.privacy.pld.distributions import Losses
    from dppipe.privacy.pld.grid import LossPmf

_UPWARD = 1 + 2.0**-44
_DROPPED = 1e-9
"""The part of a delta that frequencies may add to it and be left out."""
_WEIGHTS = 2.0**-31
"""More than the relative round-off of a sum of up to 2^20 products, and of each product."""


class Sum(NamedTuple):
    """The sum of some losses in one direction, as transformed on a tilted circle."""

    product: NDArray[np.complex128]
    """Its transform, up to some frequency."""
    sizes: NDArray[np.float64]
    """Upper bounds of what the transforms' absolute values multiply to, if each is off."""
    dropped: float
    """What the frequencies beyond may add to a delta, before the tilt is undone."""
    lowest: int
    """The place of the least loss."""
    number: int
    """Of the losses added up."""
    log_moment: float
    rounding: float
    infinite: float
    log_mass: float

    def infinite_loss(self) -> float:
        """Bound the probability of infinite loss (lemma 8)."""
        return (TAIL + self.infinite) * math.exp(self.log_mass * _UPWARD + 8 * self.number * UNIT)


class Direction:
    """What all sums of some distributions share, in one direction of neighbouring datasets."""

    def __init__(self, whole: Mapping[Losses, int], direction: int, *, interval: float) -> None:
        stage = one_direction(whole, direction)
        windows = Windows(stage)
        self.slope, self._log_moments = windows.tilt()
        longest = max(windows.length, *(len(pmf.probabilities) for pmf in stage))
        self._size = 1 << max(1, (longest - 1).bit_length())
        self._direction = direction
        self._powers: dict[LossPmf, list[tuple[NDArray[np.complex128], NDArray[np.float64]]]] = {}
        self._phases = np.exp(2j * np.pi * (np.arange(self._size) * (1 / self._size)))
        self._above = self._above_place(interval)
        self._roundness = _WEIGHTS + 256 * UNIT / -math.expm1(-self.slope)

    def nothing(self) -> Sum:
        """Return the sum of no losses."""
        half = self._size // 2 + 1
        ones = np.ones(half, dtype=np.complex128)
        return Sum(ones, np.ones(half), 0.0, 0, 0, 0.0, 0.0, 0.0, 0.0)

    def added(self, to: Sum, losses: Losses, count: int) -> Sum:
        """Return a sum with `count` more losses of a distribution."""
        pmf = losses.pmfs[min(self._direction, len(losses.pmfs) - 1)]
        log_moment = self._log_moments[pmf]
        exponent = self.slope * len(pmf.probabilities) + abs(log_moment)
        product = to.product
        sizes = to.sizes
        kept = len(product)
        for values, bounds in self._powers_of(pmf, count):
            product = product * values[:kept]
            sizes = sizes * bounds[:kept]
        grown = math.exp(count * max(0.0, self._log_largest(pmf)))
        return Sum(
            product,
            sizes,
            to.dropped * grown,
            to.lowest + count * pmf.lowest,
            to.number + count,
            to.log_moment + count * log_moment,
            to.rounding + count * (4 * exponent + 8) * UNIT,
            to.infinite + count * pmf.infinite,
            to.log_mass + count * math.log(max(1.0, pmf.mass)),
        )

    def delta(self, of: Sum, place: int) -> float:
        """Return the delta of a sum at a place of the grid."""
        above = place - of.lowest
        kept = len(of.product)
        phases = self._phases[(np.arange(kept) * above) % self._size]
        read = float(np.dot((of.product * self._above[:kept]), phases).real)
        return self._delta(of, above, read)

    def shortened(self, of: Sum, place: int) -> Sum:
        """Leave out high frequencies that add next to nothing to the delta at a place."""
        above = place - of.lowest
        log_target = math.log(max(self.delta(of, place) - of.infinite_loss(), 1e-300))
        target = math.exp(min(0.0, log_target - of.log_moment + self.slope * above))
        kept = len(of.product)
        shares = np.abs(self._above[:kept]) * of.sizes
        beyond = np.cumsum(shares[::-1])[::-1] * 1.001  # of each frequency and those above it
        first = int(np.searchsorted(-beyond, -_DROPPED * target))
        if first >= kept - kept // 8:
            return of
        first = max(2, first)
        left = of.dropped + float(beyond[first])
        return of._replace(product=of.product[:first], sizes=of.sizes[:first], dropped=left)

    def _delta(self, of: Sum, above: int, read: float) -> float:
        kept = len(of.product)
        off = of.sizes * (math.expm1(16 * of.number * UNIT) + self._roundness)
        off += of.sizes - np.abs(of.product)
        error = float(np.dot(np.abs(self._above[:kept]), off)) * 1.001 + of.dropped
        exponent = of.log_moment - self.slope * above
        rounding = of.rounding + (of.number + 4) * (abs(of.log_moment) + 8) * UNIT
        rounding += 4 * self.slope * abs(above) * UNIT
        if exponent + rounding > 700:
            return 1.0
        finite = (max(0.0, read) + error) * math.exp(exponent + rounding)
        return min(1.0, (of.infinite_loss() + finite) * _UPWARD)

    def _powers_of(
        self, pmf: LossPmf, count: int
    ) -> list[tuple[NDArray[np.complex128], NDArray[np.float64]]]:
        """Return transforms whose product is that of `count` losses."""
        powers = self._powers.get(pmf)
        if powers is None:
            self._powers = {pmf: [self._transformed(pmf)]}  # one at a time: they come in runs
            powers = self._powers[pmf]
        while count >> len(powers):
            values, sizes = powers[-1]
            powers.append((values * values, sizes * sizes))
        return [power for place, power in enumerate(powers) if count >> place & 1]

    def _log_largest(self, pmf: LossPmf) -> float:
        return math.log(float(np.max(self._powers[pmf][0][1])))

    def _transformed(self, pmf: LossPmf) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
        places = np.arange(len(pmf.probabilities))
        weighted = np.zeros(self._size, dtype=np.complex128)
        tilts = np.exp(self.slope * places - self._log_moments[pmf])
        weighted.real[: len(places)] = pmf.probabilities * tilts
        values = transform(weighted)[: self._size // 2 + 1]
        off = 2 * round_off(self._size) * float(np.sum(weighted.real))
        return values, np.abs(values) + off

    def _above_place(self, interval: float) -> NDArray[np.complex128]:
        """Return the weights of frequencies in a delta: of e^(-slope y) (1 - e^(-interval y))."""
        half = self._size // 2 + 1
        turns = self._phases[:half]
        first = 1 - math.exp(-self.slope) * turns
        second = 1 - math.exp(-self.slope - interval) * turns
        jump = math.exp(-self.slope) * -math.expm1(-interval)
        weights = jump * turns / (first * second) * (2 / self._size)
        weights[0] /= 2
        weights[-1] /= 2
        return np.asarray(weights)
