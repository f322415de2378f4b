"""What noise can be drawn: a plan that asks for other noise is refused before anything is charged for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.privacy.noise_split import gradient_multiplier
from dppipe.randomness.gaussian import LARGEST_STD, LEAST_STD, SECURE_LARGEST_MULTIPLIER

if TYPE_CHECKING:
    from dppipe.noise.base import NoiseSchedule
    from dppipe.planning.plan import Plan

_ROOM = 2.0**16  # for what a plan doesn't know: the number of groups, and how far a bound adapts


def refuse_noise(plan: Plan, noise: NoiseSchedule) -> None:
    """Refuse noise that floating point can't hold, and secure noise outside the range that its guarantee covers."""
    multipliers = [run.noise_multiplier for run in plan.noise]
    if plan.statistics_std is not None:
        multipliers = [
            gradient_multiplier(one, statistics_std=plan.statistics_std) for one in multipliers
        ]
    for multiplier in {min(multipliers), max(multipliers)} if multipliers else ():
        std = multiplier * plan.max_grad_norm
        if not LEAST_STD * _ROOM <= std <= LARGEST_STD / _ROOM:
            raise UsageError(
                f"clipping.max_grad_norm: expected noise of a standard deviation that float32 can hold, got {std:.3g}. "
                "It is the noise multiplier times the bound: choose a bound nearer to 1."
            )
    if plan.secure and noise.adaptive:
        raise PrivacyRefusal(
            f"noise.secure: expected noise that is fixed in advance, got the schedule {noise.kind!r}."
        )
    if plan.secure and multipliers and max(multipliers) > SECURE_LARGEST_MULTIPLIER:
        most = f"{SECURE_LARGEST_MULTIPLIER:g}, which secure noise is proven for"
        raise PrivacyRefusal(
            f"noise.noise_multiplier: expected at most {most}, got {max(multipliers):.6g}."
        )
