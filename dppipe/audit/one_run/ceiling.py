"""The most that an audit of one run could show, whatever the code did.

A bound says little without it: 1.4 from 100 canaries is no evidence that the truth is below 3.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dppipe.audit.one_run.curve_test import gaussian_family_epsilon
from dppipe.audit.one_run.epsilon_delta_bound import epsilon_lower_bound

if TYPE_CHECKING:
    from dppipe.audit.one_run.guesses import Guesses


def ceiling(guesses: Guesses, *, delta: float, level: float) -> float:
    """Return the (epsilon, delta) bound if all guesses that were made had been right."""
    return epsilon_lower_bound(guesses.all_right, delta=delta, level=level)


def gaussian_family_ceiling(guesses: Guesses, *, delta: float, level: float) -> float:
    """Return the bound of the Gaussian family if all guesses had been right."""
    return gaussian_family_epsilon(guesses.all_right, delta=delta, level=level)


def ceiling_of_pure_epsilon(canaries: int, *, level: float) -> float:
    """Return the bound at delta 0 if every canary was guessed, and guessed right.

    All m guesses are right with probability (1 + e^-epsilon)^-m at most; at `level` this is
    epsilon = -ln(level^(-1/m) - 1).
    """
    return -math.log(math.expm1(-math.log(level) / canaries))
