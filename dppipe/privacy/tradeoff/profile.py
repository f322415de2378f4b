"""The privacy profile: delta at every epsilon, as points that a plan keeps.

From these points a reader can draw the trade-off of epsilon and delta, and what any attacker can
reach, without composing the releases again. Read next: `blow_up.py`, which follows from them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dppipe.privacy.rounding import round_up
from dppipe.privacy.tradeoff.blow_up import largest_epsilon
from dppipe.privacy.tradeoff.few_points import FewPoints, cheap_curve
from dppipe.privacy.tradeoff.one_point import OnePoint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.privacy.accountants.base import Composition

PROFILE = "profile"
"""Under this name a plan's `whole_curve` holds the profile."""
_POINTS = 64
_DIGITS = 4
_TOLERANCE = 2e-3
"""How far deltas of other machines may be apart, relatively: two units of their last digit."""
_SHORT_EPSILON = 6
"""Epsilons of the grid have so many digits behind the point: any grid will do."""

Profile = tuple["NDArray[np.float64]", "NDArray[np.float64]"]
"""Values of epsilon >= 0, rising, and a delta that holds at each of them."""


def whole_curve_of(cost: Composition, *, delta: float) -> dict[str, Any]:
    """Return the curve of a cost as plain data: epsilon at some deltas, and the profile.

    Guarantee: where the cost is a certificate, every point is a claim that holds: epsilons and
    deltas are rounded up.
    """
    curve = replace(cost, curve=cheap_curve(cost.curve, delta=delta))
    epsilons: list[float] = []
    deltas: list[float] = []
    for epsilon in np.linspace(0.0, largest_epsilon(curve.curve), _POINTS).tolist():
        place = round(epsilon, _SHORT_EPSILON)
        if epsilons and place <= epsilons[-1]:
            continue
        epsilons.append(place)
        deltas.append(min(1.0, round_up(curve.delta(place), _DIGITS)))
    return cost.points() | {PROFILE: {"epsilons": epsilons, "deltas": deltas}}


def understates_cost(whole_curve: Mapping[str, Any], cost: Composition, *, delta: float) -> bool:
    """Whether a point of a plan's profile is below what something costs."""
    kept = whole_curve.get(PROFILE)
    if kept is None:
        return False
    curve = replace(cost, curve=cheap_curve(cost.curve, delta=delta))
    for epsilon, stated in zip(kept["epsilons"], kept["deltas"], strict=True):
        # The comparison is written so that NaN understates.
        if not stated * (1 + _TOLERANCE) >= curve.delta(epsilon):
            return True
    return False


def stated_profile(
    whole_curve: Mapping[str, Any], *, epsilon: float, delta: float
) -> Profile | None:
    """Return the profile that a plan states; None where its claim isn't finite.

    Plans of earlier versions, and of runs whose noise follows released values, keep few points of
    it or none. Then it is what these points and the claim itself imply.
    """
    if not math.isfinite(epsilon):
        return None
    kept = whole_curve.get(PROFILE)
    if kept is not None:
        return np.array(kept["epsilons"], dtype=float), np.array(kept["deltas"], dtype=float)
    points = [OnePoint(epsilon, delta)]
    known = zip(whole_curve.get("epsilons", ()), whole_curve.get("deltas", ()), strict=False)
    for known_epsilon, known_delta in known:
        points.append(OnePoint(float(known_epsilon), float(known_delta)))
    implied = FewPoints(tuple(points))
    largest = max(point.known_epsilon for point in points)
    grid = {*np.linspace(0.0, largest, _POINTS).tolist()}
    grid |= {point.known_epsilon for point in points}
    epsilons = np.array(sorted(grid))
    return epsilons, np.array([implied.delta(float(place)) for place in epsilons])
