"""What a noise schedule is: the relative size of the noise over a run, and the mechanism that adds it.

The noise multiplier of step t of T is `noise_multiplier * multiplier(t / (T - 1))`; with `auto` the budget sets its size.
A schedule never touches an optimizer or a generator: it says numbers, the plan commits to them, the core draws them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from dppipe.component import AutoFloat, Component, Field

if TYPE_CHECKING:
    from dp_accounting import DpEvent


class NoiseSchedule(Component):
    """How the noise multiplier moves over a run.

    Guarantee: the event of a step names the multiplier that the noise is drawn with; both come from `multipliers`.
    """

    adaptive: ClassVar[bool] = False
    """Whether the noise follows released values: then a filter admits each step, instead of a plan all of them."""
    constant: ClassVar[bool] = False
    """Whether every step has the same multiplier, so that the number of steps needn't be known."""

    noise_multiplier: AutoFloat = Field(
        "auto",
        ge=1e-9,
        le=1e9,
        description="Noise standard deviation over sensitivity; `auto` lands the planned steps on the budget.",
    )
    mechanism: Literal["gaussian", "laplace"] = Field(
        "gaussian",
        description="The distribution of the noise; `laplace` bounds L1 norms; its multiplier is scale over bound.",
    )
    secure: bool = Field(
        False,
        description="Whether sums and noise are rounded to a common grid, against attacks on floating-point digits.",
    )

    def multiplier(self, progress: float) -> float:
        """Give the relative size of the noise: progress is 0.0 at the first step and 1.0 at the last."""
        raise self.unwritten("multiplier(progress)")

    def relative(self, steps: int) -> list[float]:
        """Give the relative size at each of `steps` steps; overridden by a shape that depends on how many there are."""
        if self.constant:
            return [self.multiplier(0.0)] * steps
        return [self.multiplier(t / (steps - 1) if steps > 1 else 0.0) for t in range(steps)]

    def event(self, noise_multiplier: float) -> DpEvent:
        """Give the privacy event of one release with this multiplier, before any sampling."""
        import dp_accounting

        if not (math.isfinite(noise_multiplier) and noise_multiplier > 0):
            raise ValueError(f"expected a finite noise multiplier > 0, got {noise_multiplier}")
        made = (
            dp_accounting.LaplaceDpEvent
            if self.mechanism == "laplace"
            else dp_accounting.GaussianDpEvent
        )
        return made(float(noise_multiplier))

    def next_multiplier(self, history: Sequence[float]) -> float:
        """Give the relative size of the next step's noise; only for a schedule with `adaptive = True`.

        Args:
            history: The norm of the noisy gradient that each step so far has released. A filter admits the step, or ends the
                run, so an adaptive schedule needs an accountant that has one (rdp, tcdp, zcdp, gdp, advanced).
        """
        raise self.unwritten("next_multiplier(history)")
