"""The lower bound on epsilon from the guesses of one run, at the delta of the claim.

For an (epsilon, delta)-private training and m canaries whose presence m independent fair coins
decide, r guesses of which v are right have the p-value

    p(epsilon) = P[W >= v] + 2 m delta max over i = 1..v of P[v - i <= W < v] / i,

with W ~ Binomial(r, 1 / (1 + e^-epsilon)). This is Corollary 5.4 of Steinke, Nasr and Jagielski
(2023), "Privacy auditing with one (1) training run".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from dppipe.audit.one_run.guesses import Guesses

_MOST_EPSILON = 512.0
_HALVINGS = 60


def epsilon_lower_bound(guesses: Guesses, *, delta: float, level: float) -> float:
    """Return the largest epsilon that the guesses contradict at this level, or 0.

    Guarantee: where canaries are units of their own, their coins are fair and independent, and the
    number of guesses was fixed before the scores were seen, the training isn't (epsilon,
    delta)-private for any smaller epsilon, with confidence 1 - level. Nothing is assumed of the
    code, of the scores, or of how canaries influence each other.

    Example:
        >>> from dppipe.audit.one_run.epsilon_delta_bound import epsilon_lower_bound
        >>> from dppipe.audit.one_run.guesses import Guesses
        >>> round(epsilon_lower_bound(Guesses(1000, 100, 75), delta=1e-4, level=0.05), 3)
        0.673
    """
    if p_value_of_epsilon(guesses, epsilon=0.0, delta=delta) >= level:
        return 0.0
    low = 0.0
    high = 1.0
    while p_value_of_epsilon(guesses, epsilon=high, delta=delta) < level:
        low = high
        high = 2 * high
        if high > _MOST_EPSILON:
            return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if p_value_of_epsilon(guesses, epsilon=middle, delta=delta) < level:
            low = middle
        else:
            high = middle
    return low


def p_value_of_epsilon(guesses: Guesses, *, epsilon: float, delta: float) -> float:
    """Return the p-value of the claim that the training is (epsilon, delta)-private.

    The term with delta counts all m canaries, those without a guess among them.
    """
    if guesses.right == 0:
        return 1.0
    chance = float(special.expit(epsilon))
    tail = float(_at_least(np.array([guesses.right]), guesses.made, chance)[0])
    if delta == 0:
        return min(1.0, tail)
    fewer = np.arange(1, guesses.right + 1)
    between = _at_least(guesses.right - fewer, guesses.made, chance) - tail
    return min(1.0, tail + 2 * guesses.canaries * delta * float(np.max(between / fewer)))


def _at_least(counts: np.ndarray, draws: int, chance: float) -> np.ndarray:
    """Return P[W >= count] for W ~ Binomial(draws, chance): a tail, never 1 minus the other."""
    positive = np.maximum(counts, 1)
    tails = special.betainc(positive, draws - positive + 1, chance)
    return np.asarray(np.where(counts > 0, tails, 1.0))
