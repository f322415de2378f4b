"""Limits of the noise that can be drawn; a plan with other noise is refused before any charge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.randomness.gaussian import LARGEST_STD, LEAST_STD, SECURE_LARGEST_MULTIPLIER

if TYPE_CHECKING:
    from dppipe.noise.base import NoiseSchedule
    from dppipe.planning.step_plan import StepPlan

_ROOM = 2.0**16
"""Room for what a plan doesn't know: the number of groups, and how far a bound adapts."""


def refuse_noise(plan: StepPlan, noise: NoiseSchedule) -> None:
    """Refuse noise that float32 can't represent, and secure noise that its proof doesn't cover."""
    if plan.secure and noise.adaptive:
        raise PrivacyRefusal(
            "noise.secure: expected noise that is fixed in advance, got the schedule "
            f"{noise.kind!r}."
        )
    if not plan.noise:
        return
    multipliers = [plan.gradient_multiplier(run.noise_multiplier) for run in plan.noise]
    largest = max(multipliers)
    for multiplier in (min(multipliers), largest):
        std = multiplier * plan.max_grad_norm
        if not LEAST_STD * _ROOM <= std <= LARGEST_STD / _ROOM:
            raise UsageError(
                "clipping.max_grad_norm: expected noise of a standard deviation that float32 can "
                f"represent, got {std:.3g}. It is the noise multiplier times the bound: choose a "
                "bound nearer to 1."
            )
    if plan.secure and largest > SECURE_LARGEST_MULTIPLIER:
        raise PrivacyRefusal(
            f"noise.noise_multiplier: expected at most {SECURE_LARGEST_MULTIPLIER:g}, which secure "
            f"noise is proven for, got {largest:.6g}."
        )
