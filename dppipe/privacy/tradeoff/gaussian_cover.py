"""The Gaussian curve that covers a privacy curve: mu of Gaussian differential privacy.

No finite mu covers a curve at every delta if, for instance, a part of delta pays for bounds that
may fail. So mu is stated for the deltas from the claim's own up: these are the values of epsilon
from 0 to epsilon(delta).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dppipe.privacy.gaussian import GaussianCurve, gaussian_delta

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.privacy.accountants.base import Composition

_POINTS = 120
"""At how many values of epsilon the curve is read. Fewer make mu larger, never too small."""
_MOST_EPSILON = 600.0
"""Up to here e^epsilon is far from the end of float64; beyond it no mu is stated."""
_LARGEST_MU = 1000.0
_SLACK = 1e-9
"""More than the round-off of a Gaussian delta, relative to it."""
_STEPS = 40
"""How often the interval of mu is halved: then it is narrower than 1e-9."""


def covering_mu(cost: Composition, *, delta: float) -> float | None:
    """Return the least mu whose Gaussian curve covers this cost's; None where none is finite.

    Guarantee: where the cost is a certificate, the released values are no easier to tell from
    those of a neighbouring dataset, at any epsilon from 0 to `cost.epsilon(delta)`, than those of
    one Gaussian release with noise of 1/mu sensitivities (Dong, Roth and Su 2022).
    The true delta is convex in e^epsilon, so between two points that are read it lies below their
    chord, and the Gaussian curve lies above every chord.
    """
    if isinstance(cost.curve, GaussianCurve):
        return cost.curve.mu if cost.curve.mu <= _LARGEST_MU else None
    largest = cost.epsilon(delta)
    if largest > _MOST_EPSILON:
        return None
    epsilons = np.linspace(0.0, largest, _POINTS if largest else 1)
    deltas = np.array([cost.delta(float(epsilon)) for epsilon in epsilons])
    if not deltas.any():
        return 0.0
    if not _covers(_LARGEST_MU, epsilons, deltas):
        return None
    low = 0.0
    high = _LARGEST_MU
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _covers(middle, epsilons, deltas):
            high = middle
        else:
            low = middle
    return high


def _covers(mu: float, epsilons: NDArray[np.float64], deltas: NDArray[np.float64]) -> bool:
    """Whether a Gaussian curve lies above all points, and above the chords between them."""
    if not _lies_above(mu, epsilons, deltas):
        return False
    growth = np.exp(epsilons)
    widths = np.diff(growth)
    slopes = np.clip(np.divide(np.diff(deltas), widths), -1.0, 0.0)
    # The Gaussian curve falls with e^epsilon at the rate Phi(-epsilon/mu - mu/2). It is nearest to
    # a chord where that is the chord's own slope, or at an end of the chord.
    nearest = mu * (-special.ndtri(-slopes) - mu / 2)
    places = np.clip(nearest, epsilons[:-1], epsilons[1:])
    parts = (np.exp(places) - growth[:-1]) / widths
    return _lies_above(mu, places, deltas[:-1] + parts * np.diff(deltas))


def _lies_above(mu: float, epsilons: NDArray[np.float64], deltas: NDArray[np.float64]) -> bool:
    gaussian = gaussian_delta(epsilons, 1 / mu)
    return bool(np.all(gaussian * (1 - _SLACK) >= deltas))
