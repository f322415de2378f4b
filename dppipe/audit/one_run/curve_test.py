"""The test of a run's whole privacy curve by the guesses of that run.

The claim is a blow-up B: what has probability x with a canary has at most B(x) without it
(`privacy/tradeoff/blow_up.py`). If the claim holds, the numbers of right and of wrong guesses obey
a recursion; the test follows it from v right guesses down to none, and rejects where the recursion
asks for more guesses than were made. It is the test of Mahloujifar, Melis and Chaudhuri (2024),
"Auditing f-differential privacy in one run", for canaries whose presence a fair coin decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from scipy import special

from dppipe.privacy.gaussian import GaussianCurve

if TYPE_CHECKING:
    from dppipe.audit.one_run.guesses import Guesses

Inverse = Callable[[float], float]
"""B^-1: the least probability in one world of what has probability y in the other."""

_LEAST_LOG_LEVEL = -700.0
_HALVINGS = 60
_MOST_MU = 64.0


def rejects(guesses: Guesses, inverse: Inverse, *, level: float) -> bool:
    """Return whether the guesses contradict the claim at this level.

    Guarantee: a training that keeps the claim is rejected with probability `level` at most, under
    the conditions of `epsilon_lower_bound`.
    """
    made = guesses.made
    canaries = guesses.canaries
    right = level * guesses.right / canaries
    wrong = level * (made - guesses.right) / canaries
    for count in range(guesses.right - 1, -1, -1):
        more = max(wrong, inverse(right))
        if more == wrong:
            break
        right = min(1.0, right + count / (made - count) * (more - wrong))
        wrong = more
    return right + wrong > made / canaries


def p_value_of_claim(guesses: Guesses, inverse: Inverse) -> float:
    """Return the smallest level at which the guesses contradict the claim, rounded up."""
    if not rejects(guesses, inverse, level=1.0):
        return 1.0
    low = _LEAST_LOG_LEVEL
    high = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if rejects(guesses, inverse, level=math.exp(middle)):
            high = middle
        else:
            low = middle
    return math.exp(high)


def gaussian_family_mu(guesses: Guesses, *, level: float) -> float:
    """Return the largest mu for which the guesses contradict mu-Gaussian differential privacy."""
    if not rejects(guesses, gaussian_inverse(0.0), level=level):
        return 0.0
    low = 0.0
    high = 1.0
    while rejects(guesses, gaussian_inverse(high), level=level):
        low = high
        high = 2 * high
        if high > _MOST_MU:
            return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if rejects(guesses, gaussian_inverse(middle), level=level):
            low = middle
        else:
            high = middle
    return low


def gaussian_family_epsilon(guesses: Guesses, *, delta: float, level: float) -> float:
    """Return the epsilon of the largest Gaussian mu that is contradicted.

    It bounds epsilon from below only if the training's curve is that of some Gaussian mechanism.
    """
    return GaussianCurve(gaussian_family_mu(guesses, level=level)).epsilon(delta)


def gaussian_inverse(mu: float) -> Inverse:
    """Return B^-1 of mu-Gaussian differential privacy, in closed form."""
    return lambda y: float(special.ndtr(special.ndtri(y) - mu))


def pure_inverse(epsilon: float) -> Inverse:
    """Return B^-1 of epsilon-differential privacy with delta 0."""
    return lambda y: max(math.exp(-epsilon) * y, 1 - math.exp(epsilon) * (1 - y))
