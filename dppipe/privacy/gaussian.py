"""The Gaussian mechanism exactly: its delta at an epsilon, and the two inverses.

The formula is that of Balle and Wang (2018). `s` is the noise's standard deviation over the
sensitivity; in Gaussian differential privacy mu = 1/s (Dong, Roth and Su 2019). Read next:
`profiles/sampling.py`, which builds the sampled mechanisms on it.
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
"""From this mu on, numbers would overflow; nothing is private long before. One below its inverse
counts as that."""
_SLACK = 2.0**-46
"""128 units of round-off; of 40,000 random deltas none needed more than four."""


@dataclass(frozen=True)
class GaussianCurve:
    """The privacy curve of a Gaussian mechanism with mu = sensitivity / noise.

    Nothing is spent at mu = 0.
    """

    mu: float

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at this delta."""
        if self.mu == 0:
            return 0.0
        if not 0 < self.mu < _NO_PRIVACY:
            return math.inf
        return gaussian_epsilon(self._scale, delta)

    def delta(self, epsilon: float) -> float:
        """Return the delta at this epsilon."""
        if self.mu == 0:
            return 0.0
        if not 0 < self.mu < _NO_PRIVACY:
            return 1.0
        return float(gaussian_delta(epsilon, self._scale))

    @property
    def _scale(self) -> float:
        return 1 / max(self.mu, 1 / _NO_PRIVACY)

    def parameters(self) -> dict[str, Any]:
        """Return mu, which determines the curve."""
        return {"mu": self.mu}


def gaussian_delta(epsilon: ArrayLike, s: ArrayLike) -> NDArray[np.float64]:
    """Return delta(epsilon), for any real epsilon, rounded up.

    It is Phi(1/2s - epsilon s) - e^epsilon Phi(-1/2s - epsilon s).

    Guarantee: never below the exact value, even if epsilon and s are themselves off by ten units of
    round-off (`pld/PROOF.md`, lemma 1).
    """
    upper, share = _log_tail_and_share(epsilon, s)
    return np.asarray(np.minimum(np.exp(upper) * share, 1.0), dtype=np.float64)


def gaussian_log_delta(epsilon: float, s: float) -> float:
    """Return the logarithm of `gaussian_delta`, also where delta itself underflows to 0."""
    upper, share = _log_tail_and_share(epsilon, s)
    return min(float(upper + np.log(share)), 0.0)


def _log_tail_and_share(
    epsilon: ArrayLike, s: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two factors of delta: the first probability's logarithm, and the share that counts.

    As a product: the difference of two numbers that both underflow would lose the tail.
    """
    epsilon = np.asarray(epsilon, dtype=np.float64)
    s = np.asarray(s, dtype=np.float64)
    upper = special.log_ndtr(0.5 / s - epsilon * s)
    lower = special.log_ndtr(-0.5 / s - epsilon * s)
    slack = _SLACK * (1 + np.abs(epsilon) - upper - lower)
    smaller = -np.expm1(np.minimum(epsilon + lower - upper, 0.0))
    return upper, smaller + slack


def gaussian_epsilon(s: float, delta: float) -> float:
    """Return the exact epsilon of the Gaussian mechanism at this delta."""
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
    """Return the smallest s that makes the Gaussian mechanism (epsilon, delta)-private."""
    low = high = 1.0
    while float(gaussian_delta(epsilon, high)) > delta:
        high *= 2
    while float(gaussian_delta(epsilon, low)) <= delta:
        low /= 2
    root: float = optimize.brentq(
        lambda s: math.log(_positive(gaussian_delta(epsilon, s)) / delta), low, high, xtol=1e-13
    )
    return root * (1 + 1e-11) + 1e-12


def _positive(value: NDArray[np.float64]) -> float:
    """Return a delta, or 1e-300 where it is smaller: below, numbers lose their digits."""
    return max(float(value), 1e-300)
