"""Profiles of mechanisms with finitely many outcomes, such as randomised response.

Guarantee: a profile is never below the exact delta, round-off included: each loss is raised by more
than its logarithm can be off, and the sum of positive terms by more than it is rounded
(`pld/PROOF.md`, lemma 17).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dppipe.privacy.profiles.sampling import Direction

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RAISED = 2.0**-46
"""128 units of round-off, where a few are needed."""


def discrete_profile(present: Sequence[float], absent: Sequence[float]) -> Direction:
    """Return the profile of two distributions over the same outcomes.

    It is the sum of (p - e^epsilon q)_+ = p (1 - e^(epsilon - ln(p/q)))_+ over the outcomes; one
    that only the first distribution has counts whole.
    """
    weights: list[float] = []
    losses: list[float] = []
    for p, q in zip(present, absent, strict=True):
        if p > 0:
            loss = math.log(p) - math.log(q) if q > 0 else math.inf
            size = 1 + abs(math.log(p)) + abs(math.log(q)) if q > 0 else 0.0
            weights.append(p)
            losses.append(loss + _RAISED * size)
    shares = np.asarray(weights)[:, None]
    raised = np.asarray(losses)[:, None]

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        kept = -np.expm1(np.minimum(epsilon[None, :] - raised, 0.0))
        return np.asarray((shares * kept).sum(axis=0) * (1 + _RAISED))

    finite = [loss for loss in losses if loss < math.inf] or [0.0]
    return Direction(profile, min(finite), max(finite))


def worst_pair(epsilon: float, delta: float = 0.0) -> tuple[list[float], list[float]]:
    """Return the pair that every (epsilon, delta)-private mechanism is a processing of.

    See Kairouz, Oh and Viswanath (2015, theorem 3.3): the truth or a lie, at odds e^epsilon to 1,
    and with probability delta a revelation.
    """
    unlikely = math.exp(-epsilon) / (1 + math.exp(-epsilon))
    likely = 1 / (1 + math.exp(-epsilon))
    rest = 1 - delta
    present = [rest * likely, rest * unlikely, delta, 0.0]
    absent = [rest * unlikely, rest * likely, 0.0, delta]
    return present, absent
