"""The noise multiplier of each step: the plan's or, while a filter admits it, a schedule's choice.

A committed plan was bounded as a whole, so a step only has to be within it. A schedule that looks
at released values has no such plan: each of its steps asks a filter before it draws a record, and
is charged before it is released (`dppipe.privacy.filters.step_filters`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.filters.step_filters import StepFilter, step_filter

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from torch import Tensor

    from dppipe.planning.privacy_plan import PrivateParts
    from dppipe.planning.step_plan import StepPlan


class StepNoise(Protocol):
    """Decides the noise of each private step, and whether the step may be taken."""

    def multiplier(self, step: int) -> float | None:
        """Return the noise multiplier of a step, or None if it may not be taken."""
        ...

    def charge(self, event: DpEvent) -> None:
        """Add an admitted step to what is spent, before it draws a record."""
        ...

    def observe(self, released: Tensor) -> None:
        """Note a released gradient."""
        ...


@dataclass(frozen=True)
class PlannedNoise:
    """The noise that was fixed before any record was read."""

    plan: StepPlan

    def multiplier(self, step: int) -> float | None:
        """Return the planned multiplier; there is none after the last planned step."""
        return self.plan.noise_multiplier(step) if step <= self.plan.steps else None

    def charge(self, event: DpEvent) -> None:
        """Do nothing: the plan is within the budget as a whole."""

    def observe(self, released: Tensor) -> None:
        """Do nothing."""


@dataclass
class FilteredNoise:
    """Noise that follows released values.

    Guarantee: a step is admitted only if all charged steps and this one together fit in the
    filter's capacity, which was fixed before. So the run is within its budget whatever the schedule
    chooses.
    """

    parts: PrivateParts
    plan: StepPlan
    filter: StepFilter
    history: list[float] = field(default_factory=list)
    """The norm of each released gradient: noisy, so that looking at it costs nothing."""

    def multiplier(self, step: int) -> float | None:
        """Return the schedule's choice, if the filter admits it."""
        if step > self.plan.steps:
            return None
        relative = self.parts.noise.next_multiplier(self.history)
        if not _is_positive_and_finite(relative):
            raise PrivacyRefusal(
                "noise: expected a finite number > 0 from the schedule "
                f"{self.parts.noise.kind!r}, got {relative!r}. Fix next_multiplier()."
            )
        multiplier = self.plan.noise_multiplier(1) * float(relative)
        event = self.parts.event(multiplier, rate=self.plan.batch(step).sample_rate)
        return multiplier if self.filter.fits(event) else None

    def charge(self, event: DpEvent) -> None:
        """Add the step to what is spent."""
        self.filter.charge(event)

    def observe(self, released: Tensor) -> None:
        """Add the norm of a released gradient to the history.

        This waits for the device: the next step's noise depends on it.
        """
        self.history.append(float(released.norm()))


def make_step_noise(
    parts: PrivateParts,
    plan: StepPlan,
    *,
    charged: Iterable[DpEvent] = (),
    history: Iterable[float] = (),
) -> StepNoise:
    """Return the noise of a run's steps; a filter starts from what was charged already."""
    if plan.schedule == "committed" or parts.budget is None:
        return PlannedNoise(plan)
    planned = parts.committed(plan)
    filtered = step_filter(parts.accountant.kind, budget=parts.budget, planned=planned)
    for event in charged:
        filtered.charge(event)
    return FilteredNoise(parts, plan, filtered, list(history))


def _is_positive_and_finite(value: Any) -> bool:
    try:
        return 0 < float(value) < math.inf
    except (TypeError, ValueError):
        return False
