"""One step as an (epsilon, delta) mechanism.

The textbook composition theorems know nothing else of it.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize, stats

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import proven_rule, rule_of
from dppipe.privacy.gaussian import gaussian_delta

if TYPE_CHECKING:
    from dp_accounting import DpEvent


def amplified(epsilon: float, rate: float) -> float:
    """Return ln(1 + q (e^epsilon - 1)), the epsilon after sampling at rate q.

    Delta becomes q delta.

    Guarantee: for Poisson sampling under zero_out and add_remove, and for uniform subsets under
    replace_one (Balle, Barthe and Gaboardi 2018). The popular q epsilon lies below it and is no
    bound.
    """
    if epsilon > 500:
        return epsilon + math.log(rate)
    return math.log1p(rate * math.expm1(epsilon))


def own_delta(event: DpEvent) -> float | None:
    """Return the delta of a step that can't be chosen; None where any delta gives an epsilon.

    It is 0 where the step is differentially private with delta 0.
    """
    rule = rule_of(event)
    return None if rule.own_delta is None else rule.own_delta(event)


@functools.lru_cache(maxsize=8192)
def step_epsilon(event: DpEvent, *, delta: float, relation: Relation) -> float:
    """Return the epsilon that one step costs at this delta.

    A step whose delta can't be chosen doesn't need one (`own_delta`).
    """
    rule = proven_rule("basic", event, relation=relation)
    if rule.one_step is None:
        raise PrivacyRefusal(f"accountant: expected the epsilon of {rule.name}, got none.")
    return rule.one_step(event, relation, delta)


def drawn_again_epsilon(records: int, draws: int, z: float, delta: float) -> float:
    """Bound a Gaussian on a sample drawn with replacement.

    This is theorem 10 of Balle, Barthe and Gaboardi (2018). A record that is drawn k times moves
    the sum by 2k bounds; eta is the chance that it is drawn at all.
    """
    eta = -math.expm1(draws * math.log1p(-1 / records)) if records > 1 else 1.0
    times = np.arange(1, draws + 1)
    weights = stats.binom.pmf(times, draws, 1 / records)

    def at(epsilon: float) -> float:
        return float(np.dot(weights, gaussian_delta(epsilon, z / (2 * times))))

    if at(0.0) <= delta:
        return 0.0
    high = 1.0
    while at(high) > delta:
        high *= 2
        if high > 1e6:
            return math.inf
    root: float = optimize.brentq(
        lambda epsilon: math.log(max(at(epsilon), 1e-300) / delta), 0.0, high, xtol=1e-12
    )
    return amplified(root * (1 + 1e-10) + 1e-11, eta)
