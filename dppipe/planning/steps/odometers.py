"""What a plan states beside its epsilon: odometer claims, and the cost of rounding a schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppipe.privacy.events.sequences import total
from dppipe.privacy.rounding import round_up

if TYPE_CHECKING:
    from dppipe.planning.step_runs import CurvePoint
    from dppipe.planning.steps.timetable import Timetable
    from dppipe.privacy.accountants.base import Accountant
    from dppipe.privacy.budget import Budget
    from dppipe.privacy.events.sequences import Steps


def odometer(
    accountant: Accountant,
    events: Steps,
    budget: Budget,
    *,
    at: Sequence[int],
    table: Timetable,
    steps: int,
) -> tuple[CurvePoint, ...]:
    """Return epsilon after each tenth of the run at an equal share of delta.

    Nothing is returned where a share is too small for some tenth.

    Guarantee: `StepPlan.odometer_claim` says what these points prove together.

    Args:
        accountant: What bounds the events.
        events: All charges of the run.
        budget: Its delta is shared, and its relation holds.
        at: The counts at which the plan's own curve is known; the tenths are among them.
        table: The steps of the run.
        steps: How many of them there are.
    """
    charges = total(events)
    tenths = {math.ceil(charges * k / 10) for k in range(1, 11)}
    found = accountant.curve(events, at, delta=budget.delta / len(tenths), relation=budget.relation)
    epsilons = dict(zip(at, found, strict=True))
    counts = [count for count in at if count in tenths]
    claims = [epsilons[count] for count in counts]
    if not all(map(math.isfinite, claims)):
        return ()
    return table.curve_points(counts, claims, steps=steps)


def rounding(accountant: Accountant, events: Steps, budget: Budget) -> dict[str, float]:
    """Return how much rounding a long schedule adds to epsilon at most, where it was rounded."""
    cost = accountant.rounding_cost(events, delta=budget.delta, relation=budget.relation)
    return {"rounding_cost": round_up(cost, 3)} if cost else {}
