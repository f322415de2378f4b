"""The Gaussian mechanism exactly: its delta at an epsilon, and the two inverses (Balle and Wang 2018).

`s` is the noise's standard deviation over the sensitivity; in Gaussian differential privacy mu = 1/s (Dong, Roth and Su 2019).
Read next: `profiles.py`, which builds the sampled mechanisms on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize, special

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


_NO_PRIVACY = 1e100
"""From this mu on, numbers would overflow; nothing is private long before. One below its inverse counts as that."""
_SLACK = 2.0**-46


@dataclass(frozen=True)
class GaussianCurve:
    """The privacy curve of a Gaussian mechanism with mu = sensitivity / noise; nothing is spent at mu = 0."""

    mu: float

    def epsilon(self, delta: float) -> float:
        """Give the epsilon at this delta."""
        return (
            gaussian_epsilon(self._scale, delta)
            if 0 < self.mu < _NO_PRIVACY
            else math.inf
            if self.mu
            else 0.0
        )

    def delta(self, epsilon: float) -> float:
        """Give the delta at this epsilon."""
        return (
            float(gaussian_delta(epsilon, self._scale))
            if 0 < self.mu < _NO_PRIVACY
            else 1.0
            if self.mu
            else 0.0
        )

    @property
    def _scale(self) -> float:
        return 1 / max(self.mu, 1 / _NO_PRIVACY)

    def parameters(self) -> dict[str, Any]:
        """Give mu, which determines the curve."""
        return {"mu": self.mu}


def gaussian_delta(epsilon: ArrayLike, s: ArrayLike) -> NDArray[np.float64]:
    """Give delta(epsilon) = Phi(1/2s - epsilon s) - e^epsilon Phi(-1/2s - epsilon s), for any real epsilon, or a little more.

    Guarantee: never below the exact value, even if epsilon and s are themselves off by ten units of round-off. With a and b the
    arguments of Phi, U and L its logarithms there, delta = e^U - e^(epsilon + L) moves by at most e^U for each unit that U,
    epsilon or L moves by. Round-off moves a and b by a few units of 1/2s + |epsilon| s, and Phi's logarithm falls by less than
    1 + |a| for each unit of a: in U and L this is a few units of 1 + |epsilon| - U - L, whatever the signs. What `log_ndtr` is
    off by is relative to U and L too. Of 40,000 random deltas none needed more than four units; `_SLACK` is 128.
    """
    epsilon, s = np.asarray(epsilon, dtype=np.float64), np.asarray(s, dtype=np.float64)
    upper, lower = special.log_ndtr(0.5 / s - epsilon * s), special.log_ndtr(-0.5 / s - epsilon * s)
    slack = _SLACK * (1 + np.abs(epsilon) - upper - lower)
    # As a product: the difference of two numbers that both underflow would lose the tail.
    smaller = -np.expm1(np.minimum(epsilon + lower - upper, 0.0))
    return np.asarray(np.minimum(np.exp(upper) * (smaller + slack), 1.0), dtype=np.float64)


def gaussian_epsilon(s: float, delta: float) -> float:
    """Give the exact epsilon of the Gaussian mechanism at this delta."""
    if float(gaussian_delta(0.0, s)) <= delta:
        return 0.0
    high = 1.0
    while _positive(gaussian_delta(high, s)) > delta:
        high *= 2
        if high > 1e12:
            return math.inf
    root: float = optimize.brentq(
        lambda epsilon: math.log(_positive(gaussian_delta(epsilon, s)) / delta),
        0.0,
        high,
        xtol=1e-13,
    )
    # The root is right to about 1e-12; a bound has to lie above it.
    return root * (1 + 1e-11) + 1e-12


def gaussian_scale(epsilon: float, delta: float) -> float:
    """Give the smallest s at which the Gaussian mechanism is (epsilon, delta)-differentially private."""
    low, high = 1.0, 1.0
    while float(gaussian_delta(epsilon, high)) > delta:
        high *= 2
    while float(gaussian_delta(epsilon, low)) <= delta:
        low /= 2
    root: float = optimize.brentq(
        lambda s: math.log(_positive(gaussian_delta(epsilon, s)) / delta), low, high, xtol=1e-13
    )
    return root * (1 + 1e-11) + 1e-12


def _positive(value: NDArray[np.float64]) -> float:
    """Give a delta, or 1e-300 where it is smaller: below, numbers lose their digits."""
    return max(float(value), 1e-300)
