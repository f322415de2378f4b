"""What a plan says beside its epsilon: the claims of an odometer, and what rounding a long schedule costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppipe.planning.plan import CurvePoint
from dppipe.privacy.events.sequences import total
from dppipe.privacy.rounding import round_up

if TYPE_CHECKING:
    from dppipe.planning.timetable import Timetable
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
    """Give epsilon after each tenth of the run at an equal share of delta; nothing where a share is too small for some.

    Guarantee: `Plan.odometer_claim` says what these points prove together.

    Args:
        at: The counts that the plan's own curve is known at; the tenths are among them.
    """
    charges = total(events)
    tenths = {math.ceil(charges * k / 10) for k in range(1, 11)}
    found = accountant.curve(events, at, delta=budget.delta / len(tenths), relation=budget.relation)
    epsilons = {count: epsilon for count, epsilon in zip(at, found, strict=True) if count in tenths}
    if not all(map(math.isfinite, epsilons.values())):
        return ()
    return tuple(
        CurvePoint(step=min(steps, n * table.per_charge), epsilon=epsilon)
        for n, epsilon in epsilons.items()
    )


def rounding(accountant: Accountant, events: Steps, budget: Budget) -> dict[str, float]:
    """Say what rounding a long schedule adds to epsilon at most, where it was rounded."""
    cost = accountant.rounding_cost(events, delta=budget.delta, relation=budget.relation)
    return {"rounding_cost": round_up(cost, 3)} if cost else {}
