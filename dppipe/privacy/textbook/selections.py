"""Selections by score: how likely each candidate is, and what m selections cost together.

The exponential mechanism chooses at odds exp(epsilon score / 2) (McSherry and Talwar 2007), for
scores in units of their sensitivity. Permute-and-flip (McKenna and Sheldon 2020) takes the
candidates in random order and accepts each with probability exp(epsilon (score - best) / 2). Both
are private with delta 0. The privacy loss of the exponential mechanism has the range epsilon, so
that it costs epsilon^2/8 in zCDP; of permute-and-flip only epsilon^2/2 is known.
`dppipe/randomness/selection.py` draws from both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from dppipe.privacy.rounding import decimal_up, exact

Selection = Literal["exponential", "permute_and_flip"]
_RHO_DIVISOR = {"exponential": 8, "permute_and_flip": 2}


def selection_rho(kind: Selection, epsilon: float, *, digits: int = 6) -> float:
    """Return the zCDP of one selection, rounded up."""
    return decimal_up(exact(epsilon) ** 2 / _RHO_DIVISOR[kind], digits)


def selection_event(kind: Selection, epsilon: float) -> Any:
    """Return the event of one selection."""
    from dppipe.privacy.events import epsilon_delta, exponential_mechanism

    if kind == "exponential":
        return exponential_mechanism.event_class()(float(epsilon))
    return epsilon_delta.event_class()(float(epsilon), 0.0)


def exponential_chances(scores: Sequence[float], epsilon: float) -> list[float]:
    """Return the probability of each candidate by the exponential mechanism."""
    best = max(scores)
    odds = [math.exp(epsilon * (score - best) / 2) for score in scores]
    total = math.fsum(odds)
    return [each / total for each in odds]


def permute_and_flip_chances(scores: Sequence[float], epsilon: float) -> list[float]:
    """Return the probability of each candidate by permute-and-flip.

    A random order is that of independent arrival times in [0, 1]. A candidate that arrives at t is
    chosen if it is accepted and every other one came later or was refused:
    Pr[j] = a_j times the integral of the product of (1 - t a_i) over all i but j. That is a
    polynomial in t, which Gauss and Legendre's rule integrates exactly.
    """
    import numpy as np

    accepted = np.exp(epsilon * (np.asarray(scores, dtype=np.float64) - max(scores)) / 2)
    nodes, weights = np.polynomial.legendre.leggauss(len(scores) // 2 + 1)
    refused = 1 - np.outer((nodes + 1) / 2, accepted)  # [nodes, candidates]
    chances: list[float] = []
    for candidate, chance in enumerate(accepted):
        others = np.delete(refused, candidate, axis=1).prod(axis=1)
        chances.append(float(chance * np.dot(weights, others) / 2))
    return chances
