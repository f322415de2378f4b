"""The numbers of a run's steps, as ranges: what was planned, and what the ledger's rows say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dppipe.planning.step_plan import StepPlan

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.privacy.charges import Charge

Range = tuple[float, float]
"""The least and the largest value."""


@dataclass(frozen=True, kw_only=True)
class StepRanges:
    """The numbers that steps were planned or executed with."""

    steps: int
    sample_rate: Range
    noise_multiplier: Range
    max_grad_norm: Range


def planned_ranges(plan: Plan) -> StepRanges | None:
    """Return what the steps were planned with; None without a budget or without steps."""
    if not plan.private or not isinstance(plan, StepPlan):
        return None
    rates = [run.sample_rate for run in plan.batches] or [plan.sample_rate]
    factors = [run.factor for run in plan.bounds] or [1.0]
    return StepRanges(
        steps=plan.steps,
        sample_rate=_range(rates),
        noise_multiplier=_range([run.noise_multiplier for run in plan.noise]),
        max_grad_norm=_range([plan.max_grad_norm * factor for factor in factors]),
    )


def executed_ranges(charges: Sequence[Charge]) -> StepRanges | None:
    """Return what the charged steps were executed with; None where no step was charged.

    Only the ledger knows this where bounds adapt or epochs were cut short.
    """
    steps = [charge for charge in charges if charge.what == "step"]
    if not steps:
        return None
    return StepRanges(
        steps=len(steps),
        sample_rate=_range([charge.sample_rate for charge in steps]),
        noise_multiplier=_range([charge.noise_multiplier for charge in steps]),
        max_grad_norm=_range([charge.max_grad_norm for charge in steps]),
    )


def _range(values: Sequence[float]) -> Range:
    return min(values), max(values)
