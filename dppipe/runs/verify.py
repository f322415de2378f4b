"""Verify a run's ledger from its rows alone: the chain of hashes, and epsilon computed anew.

The plan holds the first link of the chain, the delta, and the charges of earlier runs whose weights
the run started from. The summary, where there is one, holds the number of charges and the head; a
run that was killed has its last checkpoint, which names the head at that time. Rows that came after
it and were taken off the end can't be seen. The chain shows accidents and partial changes.
It can't expose someone who rewrites plan, ledger, checkpoints and summary all together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dppipe.errors import BudgetExhausted, UsageError
from dppipe.planning.earlier.runs import with_earlier
from dppipe.planning.plan import Plan
from dppipe.planning.step_plan import StepPlan
from dppipe.planning.torn_rows import torn_count, torn_release
from dppipe.privacy.accountants.base import Accountant
from dppipe.privacy.budget import Budget
from dppipe.privacy.charges import charged_steps
from dppipe.privacy.events.plain import changed_event
from dppipe.privacy.events.sequences import Steps
from dppipe.privacy.filters.step_filters import step_filter
from dppipe.privacy.ledger_reading import LedgerCorrupt, LedgerRows, read_ledger
from dppipe.runs.directory import RunDirectory
from dppipe.runs.files import read_plan
from dppipe.runs.verification.covered import covered_faults
from dppipe.runs.verification.ledger_faults import (
    claim_faults,
    limit_faults,
    released_faults,
    shape_faults,
    split_faults,
)
from dppipe.runs.verification.row_faults import row_faults
from dppipe.spec.kinds.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What a ledger was found to say."""

    ledger: str
    faults: tuple[str, ...] = ()
    """What is wrong, each with its line.

    It is empty where the ledger is whole and claims no less than it cost.
    """
    torn: bool = False
    """Whether a crash has cut off the last line.

    That is one of the faults, and counted as the release that would have been next, or as a step
    at the plan's largest cost.
    """
    rows: int = 0
    charged: int = 0
    """The number of charges, a torn line included."""
    head: str | None = None
    epsilon: float | None = None
    """What all charges cost together, computed from the rows; None where they can't be trusted.

    Of a run whose steps a filter has admitted, it is the budget.
    """
    claimed: float | None = None
    """The epsilon that the last row states."""
    delta: float | None
    accountant: str | None
    certified: bool = False
    relation: str | None = None
    unit: str | None = None
    odometer: float | None = None
    """What the run's plan lets one claim, at its delta, of a stop at the last row.

    It holds even if that stop was chosen by looking at releases.
    """
    earlier: int = 0
    """The charges of earlier private runs whose weights the run started from, by its plan.

    `epsilon` counts them too.
    """

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    def to_data(self) -> dict[str, Any]:
        """Return plain data, for programs."""
        return {"intact": self.intact} | asdict(self)


def verify_ledger(
    run_dir: Path | str, *, accountant: str | None = None, delta: float | None = None
) -> Verification:
    """Check a run's ledger and compute its epsilon anew.

    The run's own accountant and delta are used unless others are given.

    Guarantees, where the result is intact:
    - Every byte of the ledger is what was written after that plan.
    - Every row charges what the plan holds for its step.
    - `epsilon` bounds all rows under their relation, if `certified`.
    - With the run's own accountant and delta no checked row claims less than it cost.
    - Of steps that followed released values only their filter's budget is certified: composed
      curves prove nothing.

    Example:
        >>> from dppipe.runs.verify import verify_ledger
        >>> found = verify_ledger("runs/first")
        >>> found.intact, found.certified
        (True, True)
    """
    run = RunDirectory.open(Path(run_dir))
    nothing = Verification(ledger=str(run.ledger), delta=delta, accountant=accountant)
    try:
        found = read_ledger(run.ledger, plan=run.plan.read_bytes())
    except LedgerCorrupt as error:
        return replace(nothing, faults=(str(error),))
    plan = read_plan(run)
    unplanned = tuple(row_faults(found, plan=plan, place=run.ledger))
    result = _counted(nothing, run, found, plan=plan)
    result = replace(result, faults=unplanned + result.faults)
    if unplanned:
        return result
    if not found.charges:
        spent = plan.epsilon_after(1 if found.torn else 0)
        return replace(result, epsilon=spent, claimed=plan.epsilon_after(0), delta=plan.delta)
    chosen = _accountant(accountant or plan.accountant)
    bound = plan.delta if delta is None else delta
    if bound is None:
        raise UsageError(
            f"{run.plan}: expected a plan with a delta, got one without. Give --delta."
        )
    return _costed(result, run, found, plan=plan, accountant=chosen, delta=bound)


def _counted(
    nothing: Verification, run: RunDirectory, found: LedgerRows, *, plan: Plan
) -> Verification:
    """Return what needs no accountant: counts, the head, and faults of the ledger as a whole."""
    torn = bool(found.torn)
    charged = sum(charge.count for charge in found.charges)
    if torn:
        charged += torn_count(plan, found.rows)
    return replace(
        nothing,
        faults=(
            *split_faults(run, plan),
            *shape_faults(run, found, plan, charged=charged),
            *covered_faults(run),
            *released_faults(run, found, plan),
        ),
        torn=torn,
        rows=found.rows,
        charged=charged,
        head=found.head,
        earlier=plan.earlier.charged if plan.earlier is not None else 0,
    )


def _costed(
    result: Verification,
    run: RunDirectory,
    found: LedgerRows,
    *,
    plan: Plan,
    accountant: Accountant,
    delta: float,
) -> Verification:
    """Add what the rows cost, by this accountant at this delta, and whether they claim less."""
    last = found.charges[-1]
    charged_by = with_earlier(
        accountant, plan.earlier, before=(), failure=plan.failure_delta, relation=last.relation
    )
    cost = charged_by.compose(_steps(found, plan=plan), relation=last.relation)
    result = replace(
        result,
        epsilon=cost.epsilon(delta),
        delta=delta,
        accountant=accountant.kind,
        certified=cost.certified,
    )
    own = accountant.kind == plan.accountant and delta == plan.delta
    if own:
        under = (
            *claim_faults(run, found, charged_by, delta=delta),
            *limit_faults(run, plan, cost),
        )
        result = replace(result, faults=(*result.faults, *under))
    if plan.schedule == "filter":
        result = _filtered(result, found, plan=plan, place=run.ledger, own=own)
    odometer = None
    if delta == plan.delta:
        odometer = plan.odometer_claim(last.step + bool(found.torn))
    return replace(
        result, claimed=last.epsilon, relation=last.relation, unit=last.unit, odometer=odometer
    )


def _filtered(
    result: Verification, found: LedgerRows, *, plan: Plan, place: Path, own: bool
) -> Verification:
    """Ask the run's own filter for each row again.

    By another accountant or delta these rows have an estimate, no bound.
    """
    budget = _budget(plan)
    if not own or plan.accountant is None or budget is None:
        return replace(result, certified=False)
    if not isinstance(plan, StepPlan):
        return replace(result, certified=False)
    like = min(found.charges, key=lambda charge: charge.sample_rate).event
    planned = []
    for multiplier, rate, count in plan.charged_runs():
        event = changed_event(like, noise_multiplier=multiplier, sampling_probability=rate)
        planned.append((event, count))
    filtered = step_filter(plan.accountant, budget=budget, planned=planned)
    for row, charge in enumerate(found.charges, start=1):
        try:
            filtered.charge(charge.event)
        except BudgetExhausted:
            fault = (
                f"{place}:{row}: expected a step that the {plan.accountant} filter admits, got "
                "one that exceeds the budget."
            )
            return replace(result, faults=(*result.faults, fault), certified=False)
    return replace(result, epsilon=budget.epsilon)


def _budget(plan: Plan) -> Budget | None:
    """Return the budget that a plan was made for, if it had one."""
    if plan.budget_epsilon is None or plan.delta is None or plan.relation is None:
        return None
    return Budget(epsilon=plan.budget_epsilon, delta=plan.delta, relation=plan.relation)


def _steps(found: LedgerRows, *, plan: Plan) -> Steps:
    """Return the charged events; a torn row counts as the release that would have been next.

    If that is a step, it counts as the costliest one of the plan.
    """
    steps = charged_steps(found.charges)
    if not found.torn or not found.charges:
        return steps
    release = torn_release(plan, found.rows)
    if release is not None:
        return [*steps, (release.dp_event, release.count)]
    if not isinstance(plan, StepPlan):
        return steps
    last = found.charges[-1]
    noise = min(run.noise_multiplier for run in plan.noise)
    if last.what == "step":
        noise = min(last.noise_multiplier, noise)
    rate = max(rate for _, rate, _ in plan.charged_runs())
    costliest = changed_event(last.event, noise_multiplier=noise, sampling_probability=rate)
    steps.append((costliest, 1))
    return steps


def _accountant(kind: str | None) -> Accountant:
    try:
        found = Registry().load("accountant", kind or "pld")
    except UsageError as error:
        raise UsageError(f"--accountant: {error}") from error
    if not issubclass(found, Accountant):
        raise UsageError(f"--accountant: expected an accountant, got {kind!r}.")
    return found()
