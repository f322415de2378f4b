"""How epsilon, delta and shares are printed: always rounded up."""

from __future__ import annotations

from dppipe.privacy.rounding import decimal_up, exact, round_up

EPSILON_DIGITS = 4
"""More digits of epsilon than this would be below the accountants' numerical error."""
_SHARE_DIGITS = 3


def shown(epsilon: float) -> str:
    """Write an epsilon for people, rounded up."""
    if epsilon < 1e4:
        return f"{round_up(epsilon, EPSILON_DIGITS):g}"
    return f"{round_up(epsilon, 2):.2g}"


def shown_delta(delta: float) -> str:
    """Write a delta for people, rounded up where it has many digits."""
    return f"{round_up(delta, 6):g}"


def shown_share(share: float) -> str:
    """Write a probability as a percentage for people, rounded up."""
    return f"{decimal_up(exact(share) * 100, _SHARE_DIGITS):g} %"
