"""What the determinant of objective perturbation adds to a privacy loss at most.

The lemmas that are named here stand in `events/OBJECTIVE.md`. Numbers are rounded up.
"""

from __future__ import annotations

import math

_RAISED = 2.0**-46
"""Relative to the numbers involved: 128 units of round-off, where a few are needed."""


def uniform_determinant(curvature: float) -> float:
    """Return ln(1 + beta/lambda), for a Hessian of rank one (lemma 2)."""
    return math.log1p(curvature) * (1 + _RAISED)


def logistic_determinant(z: float, leverage: float) -> float:
    """Return what the determinant of a logistic loss adds at most, whatever the noise (lemma 5).

    It is the smaller one of ln(1 + k/4) and (k - s^2/2)/4, and 0 where the latter isn't positive.
    """
    return min(uniform_determinant(leverage / 4), _rest(leverage, 0.5 / z**2) / 4)


def softmax_determinant(z: float, leverage: float, classes: int) -> float:
    """Return what the determinant of a softmax loss adds at most, whatever the noise (lemma 7).

    It is the smaller one of (K-1) ln(1 + k/K) and (1 - 1/K) (k - t^2/2), t^2 = 1/(2 z^2).
    """
    uniform = (classes - 1) * uniform_determinant(leverage / classes)
    return min(uniform, (1 - 1 / classes) * _rest(leverage, 0.25 / z**2)) * (1 + _RAISED)


def _rest(leverage: float, half_square: float) -> float:
    """Return the positive part of a difference, rounded up."""
    difference = leverage - half_square
    return max(0.0, difference + _RAISED * (leverage + half_square)) if difference > 0 else 0.0
