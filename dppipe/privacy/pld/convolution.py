"""Sums of independent losses on one grid: many distributions, each many times, convolved.

Guarantee: if each distribution's delta is at least its event's at every real epsilon, then the
result's delta is at least that of all events together. `PROOF.md` has the argument: lemma 8
(composition), lemma 9 (what a window leaves out), lemma 11 (circular convolution and round-off).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from dppipe.privacy.events.sequences import cumulative
from dppipe.privacy.pld.fft import round_off, transform
from dppipe.privacy.pld.grid import LossPmf, Stage
from dppipe.privacy.pld.windows import LEFT_OUT, Windows
from dppipe.privacy.rounding import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Values = TypeVar("_Values", NDArray[np.float64], NDArray[np.complex128])

TAIL = 10 * LEFT_OUT
"""The probability that counts as infinite loss, in place of what a window leaves out. The rest is
for round-off in windows, and in exponentials that underflow."""
_MOST_KEPT = 1 << 22
"""Places of the transforms that are kept for later stages: about 100 MB."""


def convolved(stages: Sequence[Stage]) -> Iterator[LossPmf]:
    """Yield the distribution of the sum after each stage, which adds to all stages before it."""
    done = list(cumulative(stages))
    whole = done[-1]
    windows = Windows(whole)
    slope, log_moments = windows.tilt()
    kept = [windows.of(counts) for counts in done]
    lengths = [last - first + 1 for first, last in kept]
    longest = max(*lengths, *(len(pmf.probabilities) for pmf in whole))
    # Two places at least: `_Circles._mean` reads one half and mirrors it.
    size = 1 << max(1, (longest - 1).bit_length())
    circles = _Circles(size, slope=slope, log_moments=log_moments)
    for stage, counts, (first, last) in zip(stages, done, kept, strict=True):
        for pmf, count in stage.items():
            circles.add(pmf, count)
        if sum(counts.values()) == 1:  # one loss is its own sum
            yield from (pmf for pmf, count in counts.items() if count)
            continue
        lowest = first + sum(count * pmf.lowest for pmf, count in counts.items())
        yield LossPmf(lowest, circles.sums(first, last), _infinite(counts))


def _infinite(counts: Stage) -> float:
    """Bound the probability of infinite loss in a sum (lemma 8)."""
    infinite = math.fsum(count * pmf.infinite for pmf, count in counts.items())
    log_mass = math.fsum(count * math.log(max(1.0, pmf.mass)) for pmf, count in counts.items())
    return (TAIL + infinite) * math.exp(log_mass)


class _Transform(NamedTuple):
    values: NDArray[np.complex128]
    """[2, size // 2 + 1]: of losses as they are, and tilted; the other half mirrors this one."""
    sizes: NDArray[np.float64]
    """The absolute values, and what the values may be off by."""


class _Circles:
    """Losses added up on two circles, the second with weights e^(slope x - log moment).

    Here x counts places above a distribution's least loss. Tilting makes high losses likely, so
    the bound on their round-off is small beside their own probability and not beside 1. At each
    place the smaller bound is taken. Lemma 11 has the argument; `_product`, `_sizes` and `_error`
    are named there.
    """

    def __init__(self, size: int, *, slope: float, log_moments: Mapping[LossPmf, float]) -> None:
        self._size = size
        self._slope = slope
        self._log_moments = log_moments
        self._product = np.ones((2, size // 2 + 1), dtype=np.complex128)
        self._sizes = np.ones((2, size // 2 + 1))
        self._transform = functools.lru_cache(maxsize=max(1, _MOST_KEPT // size))(self._transformed)
        self._count = 0
        self._moments = [0.0]
        self._rounding = 0.0

    def add(self, pmf: LossPmf, count: int) -> None:
        """Add `count` losses of a distribution."""
        values, sizes = self._transform(pmf)
        self._product = self._product * _power(values, count)
        self._sizes = self._sizes * _power(sizes, count)
        self._count += count
        self._moments.append(count * self._log_moments[pmf])
        # Rounding of a weight's exponent, of its exponential, and of undoing it.
        exponent = self._slope * len(pmf.probabilities) + abs(self._log_moments[pmf])
        self._rounding += count * (4 * exponent + 8) * UNIT

    def sums(self, first: int, last: int) -> NDArray[np.float64]:
        """Return the probabilities of the places from first to last, each an upper bound."""
        found = np.conj(transform(np.conj(_joined(self._product)))) / self._size
        places = np.arange(first, last + 1)
        on_circle = places % self._size
        read = [found.real[on_circle], found.imag[on_circle]]
        plain, tilted = np.maximum(read, 0.0) + self._error()
        # Logarithms above 700 don't belong to the smaller bound.
        logs = np.minimum(math.fsum(self._moments) - self._slope * places, 700.0)
        margin = math.exp(self._rounding + 4 * (self._slope * last + 8) * UNIT)
        return np.asarray(np.minimum(plain, tilted * np.exp(logs)) * margin)

    def _error(self) -> NDArray[np.float64]:  # -> [2, 1]
        """Return what each place of either circle may be off by."""
        absolute = np.abs(self._product)
        forth = self._mean(self._sizes - absolute)
        between = math.expm1(16 * self._count * UNIT) * self._mean(self._sizes)
        back = 2 * round_off(self._size) * float(self._mean(absolute).sum())
        return np.asarray(forth + between + back)[:, None]

    def _transformed(self, pmf: LossPmf) -> _Transform:
        places = np.arange(len(pmf.probabilities))
        tilts = np.exp(self._slope * places - self._log_moments[pmf])
        weighted = np.zeros(self._size, dtype=np.complex128)
        weighted.real[: len(places)] = pmf.probabilities
        weighted.imag[: len(places)] = pmf.probabilities * tilts
        values = _parted(transform(weighted))
        off = 2 * round_off(self._size) * float(np.abs(weighted).sum())
        return _Transform(values, np.abs(values) + off)

    def _mean(self, halves: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean over each circle, raised a little; its halves mirror each other."""
        total = 2 * halves.sum(axis=1) - halves[:, 0] - halves[:, -1]
        return np.asarray(total * (1.001 / self._size))


def _parted(both: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Split the transform of x + i y into that of x and that of y, up to the middle."""
    half = len(both) // 2 + 1
    mirrored = np.conj(np.roll(both[::-1], 1))
    return np.stack([(both + mirrored)[:half], -1j * (both - mirrored)[:half]]) / 2


def _joined(parts: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Undo `_parted`."""
    whole = np.concatenate([parts, np.conj(parts[:, -2:0:-1])], axis=1)
    return np.asarray(whole[0] + 1j * whole[1])


def _power(values: _Values, count: int) -> _Values:
    """Raise to a whole power by squaring."""
    result = np.ones_like(values)
    square = values
    while count:
        if count & 1:
            result = result * square
        count >>= 1
        if count:
            square = square * square
    return result
