"""The noise of each step: what the plan has committed to or, while a filter admits it, what a schedule chooses on the way.

A committed plan was bounded as a whole, so asking it is a comparison. A schedule that looks at what was released makes no
plan: each of its steps is asked of a filter before it draws a record, and paid for before it is released
(`dppipe.privacy.filters.step_filters`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.filters.step_filters import StepFilter, step_filter

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from torch import Tensor

    from dppipe.planning.plan import Plan
    from dppipe.planning.privacy_plan import PrivateParts


class Pace(Protocol):
    """What the private step asks before it goes on."""

    def noise(self, step: int) -> float | None:
        """Give the noise multiplier of a step, or None if it may not be taken."""
        ...

    def charge(self, event: DpEvent) -> None:
        """Pay for a step that was asked for, before it draws a record; the ledger has it before it is released."""
        ...

    def see(self, released: Tensor) -> None:
        """Take note of a released gradient."""
        ...


@dataclass(frozen=True)
class CommittedPace:
    """The noise that was fixed before any record was read."""

    plan: Plan

    def noise(self, step: int) -> float | None:
        """Give the planned multiplier; there is none after the last planned step."""
        return self.plan.noise_multiplier(step) if step <= self.plan.steps else None

    def charge(self, event: DpEvent) -> None:
        """Do nothing: the plan is paid for as a whole."""

    def see(self, released: Tensor) -> None:
        """Do nothing."""


@dataclass
class FilteredPace:
    """Noise that follows released values.

    Guarantee: a step is admitted only if all charged steps and it together fit in the filter's capacity, which was fixed
    before; so the run is within its budget whatever the schedule chooses.
    """

    parts: PrivateParts
    plan: Plan
    filter: StepFilter
    history: list[float] = field(default_factory=list)
    """The norm of each released gradient: noisy, so that it costs nothing to look at."""

    def noise(self, step: int) -> float | None:
        """Give the schedule's choice, if the filter admits it."""
        if step > self.plan.steps:
            return None
        relative = self.parts.noise.next_multiplier(self.history)
        try:
            finite = 0 < float(relative) < math.inf
        except (TypeError, ValueError):
            finite = False
        if not finite:
            raise PrivacyRefusal(
                f"noise: expected a finite number > 0 from the schedule {self.parts.noise.kind!r}, got {relative!r}. "
                "Fix next_multiplier()."
            )
        multiplier = self.plan.noise_multiplier(1) * float(relative)
        event = self.parts.event(multiplier, rate=self.plan.batch(step).sample_rate)
        return multiplier if self.filter.fits(event) else None

    def charge(self, event: DpEvent) -> None:
        """Add the step to what is spent."""
        self.filter.charge(event)

    def see(self, released: Tensor) -> None:
        """Add the norm of a released gradient to the history; this waits for the device, as the next step's noise hangs on it."""
        self.history.append(float(released.norm()))


def make_pace(
    parts: PrivateParts,
    plan: Plan,
    *,
    charged: Iterable[DpEvent] = (),
    history: Iterable[float] = (),
) -> Pace:
    """Give the pace of a run; a filter starts from what the ledger has charged already."""
    if plan.schedule == "committed" or parts.budget is None:
        return CommittedPace(plan)
    filtered = step_filter(
        parts.accountant.kind, budget=parts.budget, planned=parts.committed(plan)
    )
    for event in charged:
        filtered.charge(event)
    return FilteredPace(parts, plan, filtered, list(history))
