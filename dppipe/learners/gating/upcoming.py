"""Which release comes next: the plan's or, while a filter admits it, a schedule's choice.

The gate asks for the next release, and says when one is charged. Read next: `gate.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dppipe.learners.sgd.step_noise import StepNoise
from dppipe.privacy.release import Release

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.planning.parts import PrivateParts
    from dppipe.planning.plan import Plan
    from dppipe.planning.step_plan import StepPlan


class Upcoming(Protocol):
    """The releases that are left of a run."""

    def next(self) -> Release | None:
        """Return the next release; None ends the run."""
        ...

    def charge(self, release: Release) -> None:
        """Count a release as spent, before a record is read for it."""
        ...

    def observe(self, released: Tensor) -> None:
        """Note a released value, which later releases may follow."""
        ...

    def epsilon_after(self, release: Release) -> float:
        """Return the epsilon that is spent once the release, which comes next, is charged."""
        ...


@dataclass
class PlannedReleases:
    """The releases of a plan without steps."""

    plan: Plan
    done: int = 0
    """How many are charged."""

    def next(self) -> Release | None:
        """Return the next planned release."""
        if self.done >= len(self.plan.releases):
            return None
        return self.plan.releases[self.done].release()

    def charge(self, release: Release) -> None:
        """Go on to the next one."""
        self.done += 1

    def observe(self, released: Tensor) -> None:
        """Do nothing: the plan is fixed."""

    def epsilon_after(self, release: Release) -> float:
        """Return the plan's epsilon after the release that comes next."""
        return self.plan.epsilon_after(self.done + 1)


@dataclass
class UpcomingSteps:
    """The releases of DP-SGD: what its plan has before the first step, then the steps."""

    plan: StepPlan
    parts: PrivateParts
    noise: StepNoise
    taken: int
    """The last step of the plan that was taken."""
    done: int = 0
    """How many releases before the first step are charged."""

    def next(self) -> Release | None:
        """Return the next release: one before the steps, or a step."""
        if self.done < len(self.plan.releases):
            return self.plan.releases[self.done].release()
        step = self.taken + 1
        noise_multiplier = self.noise.multiplier(step)
        return None if noise_multiplier is None else self.step(step, noise_multiplier)

    def step(self, step: int, noise_multiplier: float) -> Release:
        """Return a step as a release; its event has the multiplier and rate that the step uses."""
        plan = self.plan
        rate = plan.batch(step).sample_rate
        return Release(
            what="step",
            event=self.parts.event(noise_multiplier, rate=rate),
            count=plan.charges(step),
            covers=plan.steps_per_charge,
            facts={
                "step": step,
                "mechanism": plan.mechanism,
                "sampler": plan.sampler,
                "sample_rate": rate,
                "noise_multiplier": noise_multiplier,
            },
        )

    def goes_on(self) -> bool:
        """Return whether the next step may be taken."""
        return self.noise.multiplier(self.taken + 1) is not None

    def charge(self, release: Release) -> None:
        """Count a release. Whatever happens from here on, it can't be taken again."""
        if release.what == "step":
            self.noise.charge(release.event)
            self.taken = int(release.facts["step"])
        else:
            self.done += 1

    def observe(self, released: Tensor) -> None:
        """Note a released gradient."""
        self.noise.observe(released)

    def epsilon_after(self, release: Release) -> float:
        """Return the plan's epsilon; before the first step it is that of all first releases."""
        return self.plan.epsilon_after(int(release.facts.get("step", 0)))
