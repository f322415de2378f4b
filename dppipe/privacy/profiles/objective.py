"""Privacy profiles of objective perturbation: noise inside an objective that is then minimised.

The lemmas that are named here stand in `events/OBJECTIVE.md`. Each profile is the same in both
directions, so it is given for epsilon >= 0 and mirrored. z is the noise's standard deviation over
the bound L on one record's gradient, and s = 1/z.

Guarantee: a profile is never below the exact delta of a record's presence, round-off included
(`OBJECTIVE.md`, lemma 9).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dppipe.privacy.gaussian import gaussian_delta
from dppipe.privacy.profiles.determinants import logistic_determinant, softmax_determinant
from dppipe.privacy.profiles.lines import LargestLine, perturbed_lines
from dppipe.privacy.profiles.sampling import Direction, gaussian_reach, mirrored

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RAISED = 1 + 2.0**-44
"""Relative: far more than a few operations are off by."""


def logistic_profile(z: float, leverage: float) -> tuple[Direction]:
    """Return the profile of a logistic loss: the smaller one of two bounds (lemmas 4 and 5).

    Args:
        z: The noise over the bound on one record's gradient.
        leverage: The squared bound on one record's norm, over the regularisation.
    """
    shift = logistic_determinant(z, leverage)
    lines = LargestLine.of(*perturbed_lines(1 / z, leverage))

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.minimum(lines.delta(epsilon), _one_signed(epsilon, z, shift))

    return mirrored(profile, shift + gaussian_reach(1 / z))


def one_signed_profile(z: float, shift: float) -> tuple[Direction]:
    """Return the profile of a loss whose derivative has one sign for each record (lemma 5)."""
    return mirrored(lambda epsilon: _one_signed(epsilon, z, shift), shift + gaussian_reach(1 / z))


def two_signed_profile(z: float, shift: float) -> tuple[Direction]:
    """Return the profile of a loss whose derivative may have either sign (lemma 6)."""

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        left = epsilon - shift
        near = -np.expm1(left + np.log(2) + special.log_ndtr(-1 / z))
        far = 2 * gaussian_delta(left, z)
        # Below s^2/2 the first is exact; the second is above it there, so that it may be taken too.
        return np.where(left >= 0.5 / z**2, far, np.minimum(near + _slack(left), far)) * _RAISED

    return mirrored(profile, shift + gaussian_reach(1 / z))


def softmax_profile(z: float, leverage: float, classes: int) -> tuple[Direction]:
    """Return the profile of a softmax loss over all classes, by a union bound (lemma 7)."""
    shift = softmax_determinant(z, leverage, classes)
    others = classes - 1

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        left = epsilon - shift
        found = np.minimum(others * gaussian_delta(np.maximum(left, 0.0), z), 1.0)
        below = -np.expm1(np.minimum(left, 0.0))
        slack = np.where(left < 0, _slack(left), 0.0)  # 1 - e^x isn't used above the shift
        return np.asarray((below + (1 - below) * found + slack) * _RAISED)

    return mirrored(profile, shift + gaussian_reach(1 / z))


def _one_signed(epsilon: NDArray[np.float64], z: float, shift: float) -> NDArray[np.float64]:
    left = epsilon - shift
    near = -np.expm1(np.minimum(left, 0.0) + np.log(2) + special.log_ndtr(-0.5 / z))
    return np.where(left >= 0, gaussian_delta(left, z), near + _slack(left)) * _RAISED


def _slack(left: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what 1 - e^x is raised by, where x is a sum that may be off by a few units."""
    return np.asarray(2.0**-46 * (1 + np.abs(left)))
