"""Privacy loss distributions: made from profiles, composed by one Fourier transform, read as epsilon and delta.

Discretisation is pessimistic (connect-the-dots, Doroshenko et al. 2022): the grid's distribution dominates the event's. All
steps are composed at once: transforms are multiplied on a circle just wide enough that, by Chernoff bounds, at most `_TAIL`
of the mass lies outside; that mass is added to the infinite loss. So what comes out is an upper bound up to the round-off of
float64 transforms, far below a delta of 1e-12. Read next: `accountants/pld.py`.
"""

from __future__ import annotations

import functools
import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import fft

from dppipe.privacy.budget import Relation
from dppipe.privacy.divergences import log_sum
from dppipe.privacy.profiles import LARGEST_LOSS, Direction, directions

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    Parts = Sequence[tuple["Losses", int]]
    """Distributions and how many times each is taken."""

_TAIL = 1e-15
_MOST_KEPT = 4_000_000
"""Grid points that are remembered, of the events used last: 32 MB, and enough for the distinct events of any schedule."""
_SLOPES = np.concatenate([sign * 2.0 ** np.arange(-3, 11) for sign in (-1, 1)])
"""Where moments are taken for the Chernoff bounds; a factor 2 between them costs at most 6 % of width."""


_kept: OrderedDict[tuple[DpEvent, Relation, float], tuple[Losses, ...]] = OrderedDict()


@dataclass(frozen=True)
class Losses:
    """A distribution of privacy loss on the grid `interval * (lowest + i)`, and at infinity."""

    interval: float
    lowest: int
    masses: NDArray[np.float64]
    infinite: float
    round_off: float = 0.0
    """About the error of a delta that is read off; none is proven for a delta within a factor of four of it."""

    @functools.cached_property
    def log_moments(self) -> NDArray[np.float64]:
        """The log of the moment generating function at each slope, losses counted from `lowest`."""
        held = np.flatnonzero(self.masses)
        if not len(held):
            return np.zeros(len(_SLOPES))  # everything is at infinity: any window will do
        logs, places = np.log(self.masses[held]), held * self.interval
        return np.array([log_sum(logs + slope * places) for slope in _SLOPES])

    def epsilon(self, delta: float) -> float:
        """Give the smallest epsilon >= 0 whose delta is at most this; infinite if there is none."""
        losses = (self.lowest + np.arange(len(self.masses))) * self.interval
        infinite = self.infinite + float(self.masses[losses > LARGEST_LOSS].sum())
        finite = (losses > 0) & (losses <= LARGEST_LOSS)
        losses, masses = losses[finite], self.masses[finite]
        if infinite > delta or 4 * self.round_off > delta:
            return math.inf
        if not len(losses):
            return 0.0
        # From each grid point up: the mass, and the mass under the other data set. Small terms are added first.
        upper = np.cumsum(masses[::-1])[::-1]
        lower = np.cumsum((masses * np.exp(-losses))[::-1])[::-1]
        deltas = infinite + np.append(upper[1:] - np.exp(losses[:-1]) * lower[1:], 0.0)
        cell = int(np.argmax(deltas <= delta))
        excess = infinite + upper[cell] - delta
        return max(0.0, math.log(excess / lower[cell])) if excess > 0 and lower[cell] > 0 else 0.0

    def delta(self, epsilon: float) -> float:
        """Give the delta at an epsilon >= 0."""
        losses = (self.lowest + np.arange(len(self.masses))) * self.interval
        above = losses > epsilon
        return self.infinite + float(np.dot(-np.expm1(epsilon - losses[above]), self.masses[above]))


def event_losses(event: DpEvent, *, relation: Relation, interval: float) -> tuple[Losses, ...]:
    """Give the loss distributions of one event: one where both directions are alike, else two."""
    key = (event, relation, interval)
    if key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    _kept[key] = tuple(_connect_dots(direction, interval) for direction in directions(event, relation=relation))
    while len(_kept) > 1 and sum(len(losses.masses) for ways in _kept.values() for losses in ways) > _MOST_KEPT:
        _kept.popitem(last=False)
    return _kept[key]


def loss_range(event: DpEvent, *, relation: Relation) -> float:
    """Give the width of the range that an event's losses lie in."""
    return max(way.highest - way.lowest for way in directions(event, relation=relation))


def _connect_dots(direction: Direction, interval: float) -> Losses:
    """Put mass on the grid so that its delta is the profile's at every grid point and a chord above it between."""
    lowest, highest = math.floor(direction.lowest / interval), math.ceil(direction.highest / interval)
    epsilons = np.arange(lowest, max(highest, lowest + 1) + 1) * interval
    deltas = np.minimum.accumulate(np.clip(direction.profile(np.asarray(epsilons, dtype=np.float64)), 0.0, 1.0))
    steps = np.diff(deltas)
    masses = np.empty_like(deltas)
    masses[0] = 1 - deltas[0] + steps[0] / math.expm1(interval)
    masses[1:-1] = (steps[1:] - steps[:-1] * math.exp(interval)) / math.expm1(interval)
    masses[-1] = steps[-1] / math.expm1(-interval)
    return Losses(interval, lowest, np.maximum(masses, 0.0), float(deltas[-1]))


@dataclass(frozen=True)
class _Window:
    """Where the mass of a composed distribution lies, in grid points."""

    lowest: int
    """The loss that all parts at their lowest add up to."""
    start: int
    width: int
    infinite: float
    steps: int


def compose(stages: Sequence[Parts]) -> Iterator[Losses]:
    """Give the composed distribution after each stage; a stage adds its parts to all those before it."""
    windows = list(_windows(stages))
    points = fft.next_fast_len(max(window.width for window in windows), real=True)
    product = np.ones(points // 2 + 1, dtype=np.complex128)
    transforms: dict[int, NDArray[np.complex128]] = {}
    last: tuple[tuple[int, int], NDArray[np.complex128]] = ((0, 0), product)  # equal stages follow each other in a curve
    for stage, window in zip(stages, windows, strict=True):
        for losses, count in stage:
            if id(losses) not in transforms:
                transforms[id(losses)] = _transform(losses, points)
            if last[0] != (id(losses), count):
                last = ((id(losses), count), _power(transforms[id(losses)], count))
            product = product * last[1]
        masses = np.maximum(np.roll(fft.irfft(product, points), -(window.start % points)), 0.0)
        yield Losses(_interval(stages), window.lowest + window.start, masses, window.infinite, window.steps * 2.0**-53)


def widest(stages: Sequence[Parts]) -> int:
    """Give the number of grid points that composing would take."""
    return max(window.width for window in _windows(stages))


def _transform(losses: Losses, points: int) -> NDArray[np.complex128]:
    """Give the Fourier transform on a circle; a distribution that is longer than the circle is wound around it."""
    rows = math.ceil(len(losses.masses) / points)
    wound = np.pad(losses.masses, (0, rows * points - len(losses.masses))).reshape(rows, points).sum(axis=0)
    return np.asarray(fft.rfft(wound))


def _power(values: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Raise to a whole power by squaring, whose round-off is the smallest."""
    result, square = np.ones_like(values), values
    with np.errstate(under="ignore"):
        while count:
            if count & 1:
                result = result * square
            count >>= 1
            square = square * square if count else square
    return result


def _windows(stages: Sequence[Parts]) -> Iterator[_Window]:
    moments, lowest, most, log_finite, steps = np.zeros(len(_SLOPES)), 0, 0, 0.0, 0
    for stage in stages:
        for losses, count in stage:
            moments = moments + count * losses.log_moments
            lowest += count * losses.lowest
            most += count * (len(losses.masses) - 1)
            log_finite += count * math.log1p(-losses.infinite) if losses.infinite < 1 else -math.inf
            steps += count
        # P(sum >= b) <= exp(log moment - slope b), and likewise below for the negative slopes.
        bounds = (moments + math.log(2 / _TAIL)) / _SLOPES / _interval(stages)
        start = min(most, max(0, math.floor(bounds[_SLOPES < 0].max())))
        stop = min(most, math.ceil(bounds[_SLOPES > 0].min()))
        yield _Window(lowest, start, max(1, stop - start + 1), min(1.0, _TAIL - math.expm1(log_finite)), steps)


def _interval(stages: Sequence[Parts]) -> float:
    return next(losses.interval for stage in stages for losses, _ in stage)
