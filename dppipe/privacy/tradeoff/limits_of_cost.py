"""From what a run's releases cost to what any attacker can reach with them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dppipe.privacy.accountants.base import Certificate
from dppipe.privacy.rounding import round_up
from dppipe.privacy.tradeoff.attack_limits import AttackLimits, Recognition, Reconstruction
from dppipe.privacy.tradeoff.blow_up import blow_up_of
from dppipe.privacy.tradeoff.few_points import cheap_curve
from dppipe.privacy.tradeoff.gaussian_cover import covering_mu
from dppipe.privacy.tradeoff.one_point import OnePoint

if TYPE_CHECKING:
    from dppipe.privacy.accountants.base import Composition
    from dppipe.privacy.budget import Budget

_FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
_PRIORS = (1e-4, 1e-2)
_DIGITS = 4
_POINTS = 300
"""At how many values of epsilon the curve is read: limits are then at most 0.02 % too large."""


def limits_of_cost(cost: Composition, *, delta: float) -> AttackLimits:
    """Return what any attacker can reach under a cost, each number rounded up.

    Args:
        cost: What everything that is released costs. The limits of an `Estimate` are estimates.
        delta: The delta of the run's claim; mu holds at this delta and at every larger one.
    """
    cost = replace(cost, curve=cheap_curve(cost.curve, delta=delta))
    blow_up = blow_up_of(cost.curve, points=_POINTS)
    membership = []
    for rate in _FALSE_POSITIVE_RATES:
        limit = _rounded(float(blow_up(rate)))
        membership.append(Recognition(false_positive_rate=rate, true_positive_rate=limit))
    reconstruction = []
    for prior in _PRIORS:
        limit = _rounded(float(blow_up(prior)))
        reconstruction.append(Reconstruction(prior=prior, probability=limit))
    mu = covering_mu(cost, delta=delta)
    return AttackLimits(
        membership=tuple(membership),
        advantage=_rounded(cost.delta(0.0)),
        reconstruction=tuple(reconstruction),
        mu=None if mu is None else _rounded(mu),
    )


def limits_of_budget(budget: Budget) -> AttackLimits:
    """Return what any attacker can reach under a budget, of which one epsilon and delta are known.

    Guarantee: the limits hold for a run whose every step a filter of this budget has admitted.
    """
    known = Certificate("budget", budget.relation, OnePoint(budget.epsilon, budget.delta))
    return limits_of_cost(known, delta=budget.delta)


def _rounded(limit: float) -> float:
    return round_up(limit, _DIGITS)
