"""What a noise schedule is: the relative size of the noise over a run, and its distribution.

The noise multiplier of step t of T is `noise_multiplier * multiplier(t / (T - 1))`; with `auto` the
budget sets its size. A schedule never touches an optimizer or a generator: it returns numbers, the
plan commits to them, and the core draws noise of that size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from dppipe.component import AutoFloat, Component, Field

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.noise.process import NoiseProcess, Restart


class NoiseSchedule(Component):
    """How the noise multiplier changes over a run.

    Guarantee: the event of a step has the multiplier that its noise is drawn with, since both are
    made from the same number.

    Example:
        >>> from dppipe import NoiseSchedule
        >>> class Falling(NoiseSchedule, kind="falling"):
        ...     def multiplier(self, progress):
        ...         return 1.0 - 0.5 * progress
        >>> Falling().relative(3)
        [1.0, 0.75, 0.5]
    """

    adaptive: ClassVar[bool] = False
    """Whether the noise follows released values. Then a filter admits each step, not a plan."""
    restart: ClassVar[Restart] = "pays"
    """Whether the rest of a block that was cut off has to be paid for anew."""
    constant: ClassVar[bool] = False
    """Whether all steps have the same multiplier, so that the number of steps needn't be known."""

    noise_multiplier: AutoFloat = Field(
        "auto",
        ge=1e-9,
        le=1e9,
        description="Noise standard deviation over sensitivity; "
        "`auto` lands the planned steps on the budget.",
    )
    mechanism: Literal["gaussian", "laplace"] = Field(
        "gaussian",
        description="The distribution of the noise; "
        "`laplace` bounds L1 norms; its multiplier is scale over bound.",
    )
    secure: bool = Field(
        False,
        description="Whether sums and noise are rounded to a common grid, "
        "against attacks on floating-point digits.",
    )

    def multiplier(self, progress: float) -> float:
        """Return the relative size of the noise.

        Progress is 0.0 at the first step and 1.0 at the last.
        """
        raise self.unwritten("multiplier(progress)")

    def relative(self, steps: int) -> list[float]:
        """Return the relative size at each of `steps` steps.

        A shape that depends on the number of steps overrides this method.
        """
        if self.constant or steps == 1:
            return [self.multiplier(0.0)] * steps
        return [self.multiplier(t / (steps - 1)) for t in range(steps)]

    def event(self, noise_multiplier: float) -> DpEvent:
        """Return the privacy event of one release with this multiplier, before any sampling."""
        import dp_accounting

        if not (math.isfinite(noise_multiplier) and noise_multiplier > 0):
            raise ValueError(f"expected a finite noise multiplier > 0, got {noise_multiplier}")
        if self.mechanism == "laplace":
            return dp_accounting.LaplaceDpEvent(float(noise_multiplier))
        return dp_accounting.GaussianDpEvent(float(noise_multiplier))

    @property
    def deviation(self) -> float:
        """The standard deviation of noise that is drawn with scale 1."""
        return math.sqrt(2) if self.mechanism == "laplace" else 1.0

    @property
    def block(self) -> int:
        """How many steps one charge covers: more than 1 only where their noise is correlated."""
        return 1

    @property
    def needs_separation(self) -> int | None:
        """How many steps at least must lie between two uses of a unit; None if that is no matter.

        The proof of correlated noise needs a sampler that promises it (`Sampler.separation`).
        """
        return None

    def process(self) -> NoiseProcess:
        """Return how the noise of one step relates to that of others: independently, by default."""
        from dppipe.noise.process import Independent

        return Independent()

    def next_multiplier(self, history: Sequence[float]) -> float:
        """Return the relative size of the next step's noise; only where `adaptive` is True.

        A filter admits the step or ends the run, so an adaptive schedule needs an accountant that
        has a filter (rdp, tcdp, zcdp, gdp, advanced).

        Args:
            history: The norm of the noisy gradient that each step so far has released.
        """
        raise self.unwritten("next_multiplier(history)")
