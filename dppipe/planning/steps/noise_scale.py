"""How much noise a run has, and how many charges fit in its budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.steps.timetable import Timetable, refuse_length
from dppipe.privacy.calibration import affordable_steps, calibrate

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.accountants.base import Accountant
    from dppipe.privacy.budget import Budget
    from dppipe.privacy.events.sequences import Steps


def noise_scale(
    table: Timetable, accountant: Accountant, budget: Budget, *, allow_estimate: bool
) -> float:
    """Return the factor on the relative noise of every step: the one set, or a calibrated one."""
    noise = table.parts.noise
    charges = table.charges
    if charges is None and table.needs_last_step is not None:
        raise UsageError(
            f"train: expected steps or epochs: {table.needs_last_step} needs to know its last step."
        )
    if noise.noise_multiplier != "auto":
        return float(noise.noise_multiplier)
    if charges is None:
        raise UsageError(
            "train: expected steps or epochs: noise_multiplier: auto makes the budget last "
            "that long."
        )
    found = calibrate(
        accountant,
        lambda scale: table.events(scale, charges=charges),
        budget=budget,
        allow_estimate=allow_estimate,
    )
    return found.scale


def affordable_charges(
    table: Timetable, accountant: Accountant, budget: Budget, *, scale: float, allow_estimate: bool
) -> int:
    """Return how many charges fit in the budget.

    No step is taken in an epoch that can't be paid for as a whole.
    """
    if table.charges is not None and table.parts.noise.noise_multiplier == "auto":
        return table.charges
    count = affordable_steps(
        accountant,
        _planned(table, scale),
        budget=budget,
        at_most=table.charges,
        allow_estimate=allow_estimate,
    )
    if count == 0:
        raise nothing_fits("step" if table.per_charge == 1 else "epoch", budget, scale)
    refuse_length(count * table.per_charge)
    return count


def _planned(table: Timetable, scale: float) -> DpEvent | Steps:
    """Return the events of all charges; the one event of each where their number is open."""
    if table.charges is None:
        return table.parts.event(scale, rate=table.rate)
    return table.events(scale, charges=table.charges)


def nothing_fits(what: str, budget: Budget, scale: float) -> PrivacyRefusal:
    """Return the error for a budget in which not even one step, or one epoch, fits."""
    return PrivacyRefusal(
        f"budget.epsilon: not one {what} fits in epsilon {budget.epsilon:g} at noise multiplier "
        f"{scale:g}. Raise noise.noise_multiplier, lower the sample rate, or take "
        "noise_multiplier: auto with steps or epochs."
    )
