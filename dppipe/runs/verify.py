"""Verify a run's ledger from its rows alone: the chain of hashes, and epsilon computed anew with any accountant.

The plan gives the first link of the chain, the delta and the charges of earlier runs whose weights the run started from; the
summary, where there is one, gives the number of charges and the head, without which rows taken off the end couldn't be seen.
The chain shows accidents and partial changes; someone who writes plan, ledger, checkpoints and summary all anew can't be found
out by their own files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from dppipe.errors import BudgetExhausted, UsageError
from dppipe.planning.earlier import with_earlier
from dppipe.planning.plan import Plan
from dppipe.privacy.accountants.base import Accountant
from dppipe.privacy.budget import Budget
from dppipe.privacy.charges import LedgerCorrupt, LedgerRows, charged_steps, read_ledger
from dppipe.privacy.events.plain import changed_event
from dppipe.privacy.events.sequences import Steps
from dppipe.privacy.filters.step_filters import step_filter
from dppipe.runs.directory import RunDirectory
from dppipe.runs.files import read_plan, read_summary
from dppipe.runs.row_faults import row_faults
from dppipe.spec.kinds.registry import Registry

# Claims are compared at the ends of this many stretches of equal claims, the last one among them.
_POINTS_CHECKED = 20
# PLD's own discretisation: two ways of adding up the same steps may differ by so much, and by no more.
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Verification:
    """What a ledger was found to say."""

    ledger: str
    faults: tuple[str, ...]
    """What is wrong, each with its line; empty where the ledger is whole and claims no less than it cost."""
    torn: bool
    """Whether a crash has cut off the last line; it is among the faults, and counted as one charge at the plan's largest cost."""
    rows: int
    charged: int
    """The number of charges, a torn line included."""
    head: str | None
    epsilon: float | None
    """What all charges cost together, computed from the rows; the budget, of a run whose steps a filter has admitted; None
    where they can't be trusted."""
    claimed: float | None
    """The epsilon that the last row states."""
    delta: float | None
    accountant: str | None
    certified: bool
    relation: str | None
    unit: str | None
    odometer: float | None = None
    """What the run's plan lets one claim, at its delta, had the last row been chosen for a stop by looking at releases."""
    earlier: int = 0
    """The charges of earlier private runs whose weights the run started from, by its plan; `epsilon` counts them too."""

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    def to_data(self) -> dict[str, Any]:
        """Give plain data, for programs."""
        return {"intact": self.intact} | asdict(self)


def verify_ledger(run_dir: Path | str, *, accountant: str | None = None, delta: float | None = None) -> Verification:
    """Check a run's ledger and compute its epsilon anew, with the run's accountant and delta unless others are given.

    Guarantee: where the result is intact, every byte of the ledger is what was written after that plan, every row
    charges what the plan holds for its step, and `epsilon` bounds all rows under their relation, if `certified`;
    with the run's own accountant and delta no checked row claims less than it cost. Of steps that followed
    released values only their filter's budget is certified: composed curves prove nothing.
    """
    run = RunDirectory.open(Path(run_dir))
    nothing = Verification(str(run.ledger), (), False, 0, 0, None, None, None, delta, accountant, False, None, None)
    try:
        found = read_ledger(run.ledger, plan=run.plan.read_bytes())
    except LedgerCorrupt as error:
        return replace(nothing, faults=(str(error),))
    plan = read_plan(run)
    charged = sum(charge.count for charge in found.charges) + bool(found.torn)
    unplanned = tuple(row_faults(found, plan=plan, place=run.ledger))
    faults = (*unplanned, *_split_faults(run, plan), *_shape_faults(run, found, charged=charged))
    result = replace(nothing, faults=faults, torn=bool(found.torn), rows=found.rows, charged=charged, head=found.head)
    result = replace(result, earlier=plan.earlier.charged if plan.earlier is not None else 0)
    if unplanned:
        return result
    if not found.charges:
        return replace(result, epsilon=plan.epsilon_after(int(bool(found.torn))), claimed=plan.epsilon_after(0), delta=plan.delta)
    bound, chosen = plan.delta if delta is None else delta, _accountant(accountant or plan.accountant)
    if bound is None:
        raise UsageError(f"{run.plan}: expected a plan with a delta, got one without. Give --delta.")
    relation = found.charges[-1].relation
    charged_by = with_earlier(chosen, plan.earlier, before=(), failure=plan.failure_delta, relation=relation)
    cost = charged_by.compose(_steps(found, plan=plan), relation=relation)
    result = replace(result, epsilon=cost.epsilon(bound), delta=bound, accountant=chosen.kind, certified=cost.certified)
    own = chosen.kind == plan.accountant and bound == plan.delta
    if own:
        result = replace(result, faults=faults + tuple(_claim_faults(run, found, charged_by, delta=bound)))
    if plan.schedule == "filter":
        result = _filtered(result, found, plan=plan, place=run.ledger, own=own)
    last = found.charges[-1]
    odometer = plan.odometer_claim(last.step + bool(found.torn)) if bound == plan.delta else None
    return replace(result, claimed=last.epsilon, relation=last.relation, unit=last.unit, odometer=odometer)


def _split_faults(run: RunDirectory, plan: Plan) -> Iterator[str]:
    """Report an `add_remove` run of a version that split records by position: its epsilon doesn't cover that."""
    if plan.spec_hash and plan.relation == "add_remove" and plan.split == "position":
        yield (
            f"{run.plan}: expected a split by a hash of each record under add_remove, got one by position. "
            "With it one record decides where others go, which no epsilon here covers."
        )


def _shape_faults(run: RunDirectory, found: LedgerRows, *, charged: int) -> Iterator[str]:
    if found.torn:
        yield f"{run.ledger}:{found.rows + 1}: expected a whole row, got a torn one. It counts as charged; resume closes it."
    elif not found.ended:
        yield f"{run.ledger}:{found.rows}: expected a newline after the row, got the end of the file. The row counts."
    claims = [charge.epsilon for charge in found.charges]
    for number, (before, after) in enumerate(pairwise(claims), start=2):
        if after < before:
            yield f"{run.ledger}:{number}: expected epsilon of at least {before!r}, got {after!r}."
    if run.summary.exists():
        summary = read_summary(run)
        if summary.get("ledger_head") != found.head:
            yield f"{run.ledger}: expected the head that the summary names, got {found.head}. Last rows were added or taken out."
        if summary.get("charged") != charged:
            yield f"{run.ledger}: expected {summary.get('charged')} charges, as the summary says, got {charged}."


def _claim_faults(run: RunDirectory, found: LedgerRows, accountant: Accountant, *, delta: float) -> Iterator[str]:
    """Compare claims where they are tightest: at the last row of each stretch of equal claims."""
    claims = [charge.epsilon for charge in found.charges]
    ends = [row for row in range(1, len(claims) + 1) if row == len(claims) or claims[row] != claims[row - 1]]
    chosen = sorted({ends[(index + 1) * len(ends) // _POINTS_CHECKED - 1] for index in range(_POINTS_CHECKED)})
    paid = [sum(charge.count for charge in found.charges[:row]) for row in chosen]
    costs = accountant.curve(charged_steps(found.charges), paid, delta=delta, relation=found.charges[-1].relation)
    for row, cost in zip(chosen, costs, strict=True):
        if not cost <= claims[row - 1] + _TOLERANCE:
            yield f"{run.ledger}:{row}: expected epsilon of at least {cost:.6f}, as the rows cost, got {claims[row - 1]:.6f}."


def _filtered(result: Verification, found: LedgerRows, *, plan: Plan, place: Path, own: bool) -> Verification:
    """Ask the run's own filter for each row again; by another accountant or delta these rows have an estimate, no bound."""
    if not own or plan.accountant is None or plan.budget_epsilon is None or plan.delta is None or plan.relation is None:
        return replace(result, certified=False)
    budget = Budget(epsilon=plan.budget_epsilon, delta=plan.delta, relation=plan.relation)
    like = min(found.charges, key=lambda charge: charge.sample_rate).event
    planned = [(changed_event(like, noise_multiplier=z, sampling_probability=q), n) for z, q, n in plan.charged_runs()]
    filtered = step_filter(plan.accountant, budget=budget, planned=planned)
    for row, charge in enumerate(found.charges, start=1):
        try:
            filtered.charge(charge.event)
        except BudgetExhausted:
            fault = f"{place}:{row}: expected a step that the {plan.accountant} filter admits, got one that exceeds the budget."
            return replace(result, faults=(*result.faults, fault), certified=False)
    return replace(result, epsilon=plan.budget_epsilon)


def _steps(found: LedgerRows, *, plan: Plan) -> Steps:
    steps = charged_steps(found.charges)
    if found.torn and found.charges:
        last = found.charges[-1]
        noise = min(last.noise_multiplier, *(run.noise_multiplier for run in plan.noise))
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
