"""How epsilon and delta are printed: always rounded up."""

from __future__ import annotations

from dppipe.privacy.rounding import round_up

EPSILON_DIGITS = 4
"""More digits of epsilon than this would be below the accountants' numerical error."""


def shown(epsilon: float) -> str:
    """Write an epsilon for people, rounded up."""
    if epsilon < 1e4:
        return f"{round_up(epsilon, EPSILON_DIGITS):g}"
    return f"{round_up(epsilon, 2):.2g}"


def shown_delta(delta: float) -> str:
    """Write a delta for people, rounded up where it has many digits."""
    return f"{round_up(delta, 6):g}"
