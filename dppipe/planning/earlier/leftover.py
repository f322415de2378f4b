"""What earlier runs on the same records leave of a budget, and what a later run needs.

A budget that is nearly spent can still be planned for: the noise only grows until the model learns
nothing. Such a plan is refused, with the budget that the run would need.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.planning.earlier.runs import refuse_earlier
from dppipe.privacy.calibration import calibrate
from dppipe.privacy.printing import shown
from dppipe.privacy.rounding import round_up

if TYPE_CHECKING:
    from dppipe.planning.earlier.runs import Earlier
    from dppipe.planning.steps.timetable import Timetable
    from dppipe.privacy.budget import Budget

LEAST_LEFT = 0.01
"""The part of a budget that must be left for `noise_multiplier: auto` to be worth planning."""
_ADVISED_DIGITS = 3


@contextmanager
def naming_earlier(table: Timetable, budget: Budget) -> Iterator[None]:
    """Refuse earlier runs that can't be counted; add their cost to refusals raised inside."""
    parts = table.parts
    if parts.earlier is None:
        yield
        return
    alone = refuse_earlier(
        parts.earlier, budget, parts.accountant, unit=parts.unit, adaptive=parts.noise.adaptive
    )
    refuse_spent(table, budget, parts.earlier, cost=alone)
    try:
        yield
    except PrivacyRefusal as error:
        raise PrivacyRefusal(
            f"{error} The weights of {parts.earlier.names}, which it starts from, cost epsilon "
            f"{shown(alone)}."
        ) from error


def refuse_spent(table: Timetable, budget: Budget, earlier: Earlier, *, cost: float) -> None:
    """Refuse a run whose earlier runs leave nothing of its budget, or hardly anything.

    Args:
        table: The steps of the run.
        budget: What the run may cost together with the earlier ones.
        earlier: The runs whose weights it starts from.
        cost: What they cost by themselves.
    """
    left = budget.epsilon - cost
    is_auto = table.parts.noise.noise_multiplier == "auto"
    least = LEAST_LEFT * budget.epsilon if is_auto else 0.0
    nothing_left = left <= 0 or left < least
    if earlier.records == "disjoint":
        nothing_left = left < 0
    if not nothing_left:
        return
    remainder = f"{max(0.0, left):.2g} is left"
    if 0 < left < least:
        remainder += ", for which the noise would hide everything that the records could teach"
    raise PrivacyRefusal(
        f"model.pretrained: expected weights that cost less than epsilon {budget.epsilon:g}, got "
        f"those of {earlier.names}, which cost {shown(cost)} at delta {budget.delta:g} before the "
        f"first step: {remainder}. {_advice(table, budget, earlier)}"
    )


def _advice(table: Timetable, budget: Budget, earlier: Earlier) -> str:
    enough = math.inf
    if earlier.records == "same" and table.charges is not None:
        with suppress(PrivacyRefusal):  # no noise keeps the budget, even on its own
            enough = _enough(table, budget, earlier)
    if math.isfinite(enough):
        return (
            f"Raise budget.epsilon to {enough:g}, under which this run has as much noise as "
            f"epsilon {budget.epsilon:g} gives it on its own, or start from other weights."
        )
    return "Raise budget.epsilon, or start from other weights."


def _enough(table: Timetable, budget: Budget, earlier: Earlier) -> float:
    """Return the budget for this run and the earlier ones that leaves its noise as it is."""
    alone = table.parts.accountant_of_all(None, relation=budget.relation)
    charges = table.charges or 0
    scale = table.parts.noise.noise_multiplier
    if scale == "auto":
        found = calibrate(
            alone,
            lambda each: table.events(each, charges=charges),
            budget=budget,
            allow_estimate=True,
        )
        scale = found.scale
    together = table.parts.accountant_of_all(earlier, relation=budget.relation)
    events = table.events(float(scale), charges=charges)
    epsilon = together.compose(events, relation=budget.relation).epsilon(budget.delta)
    return round_up(epsilon, _ADVISED_DIGITS)
