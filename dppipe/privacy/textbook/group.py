"""Group privacy: what a guarantee for one unit is worth for k units together.

Data sets that differ in k units are joined by a chain of k neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction

from dppipe.privacy.gaussian import gaussian_epsilon, gaussian_log_delta
from dppipe.privacy.rounding import decimal_up, exact, fraction_up

_DIGITS = Context(prec=50)
_UPWARD = 1e-12
"""Relative; more than float64 takes from logarithms and sums of their size."""


def pure_group_epsilon(epsilon: float | Fraction, k: int, *, digits: int = 6) -> float:
    """Return k epsilon, rounded up: losses along the chain add up (Dwork and Roth 2014, 2.2)."""
    one = epsilon if isinstance(epsilon, Fraction) else Fraction(exact(epsilon))
    return fraction_up(k * one, digits)


def gaussian_group_epsilon(s: float, k: int, *, delta: float) -> float:
    """Return the exact epsilon of a group by Gaussian noise.

    k units together move the sum k times as far: s becomes s/k, and mu becomes k mu (Dong, Roth and
    Su 2019).
    """
    return gaussian_epsilon(s / k, delta)


def group_delta(epsilon: float, delta: float, k: int, *, digits: int = 6) -> float:
    """Return the delta of a group at k epsilon, rounded up and at most 1.

    P_1(S) <= e^epsilon P_2(S) + delta, applied k times, makes it
    delta (1 + e^epsilon + ... + e^((k-1) epsilon)) (Vadhan 2017, lemma 2.2).
    """
    with localcontext(_DIGITS):
        odds = exact(epsilon).exp()
        grown = Decimal(0)
        for _ in range(k):
            grown = 1 + odds * grown
        return min(1.0, decimal_up(exact(delta) * grown, digits))


def converted_epsilon(log_delta: Callable[[float], float], k: int, *, delta: float) -> float:
    """Return an epsilon of a group at delta, from the curve of one unit: ln delta over epsilon.

    Guarantee: the group is (k e, d)-private for every e, where d is what `group_delta` makes of
    the curve at e. The search ends at an e for which d is at most delta. The curve is one of
    logarithms because d may count where one unit's delta is too small for float64.
    """

    def fits(epsilon: float) -> bool:
        return _log_group_delta(epsilon, log_delta(epsilon), k) <= math.log(delta)

    if fits(0.0):
        return 0.0
    low = 0.0
    high = 1.0
    while not fits(high):
        low = high
        high *= 2
        if high > 1e6:
            return math.inf
    while high - low > 1e-10 * high + 1e-14:
        middle = (low + high) / 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return k * high * (1 + _UPWARD)


def converted_gaussian_epsilon(s: float, k: int, *, delta: float) -> float:
    """Return the epsilon of a group by conversion of the Gaussian curve: more than the exact."""
    return converted_epsilon(lambda epsilon: gaussian_log_delta(epsilon, s), k, delta=delta)


def _log_group_delta(epsilon: float, log_delta: float, k: int) -> float:
    """Return the logarithm of `group_delta`, raised by more than it is rounded."""
    if log_delta == -math.inf:
        return -math.inf
    grown = math.log(k)
    if epsilon > 0:
        grown = (k - 1) * epsilon + math.log(math.expm1(-k * epsilon) / math.expm1(-epsilon))
    return log_delta + grown + _UPWARD * (1 + k * epsilon + abs(log_delta))
