"""What can be wrong with a ledger beside its single rows: its end, its claims, the split.

Each fault is one sentence with its place. Read next: `row_faults.py`, the faults of single rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from dppipe.errors import UsageError
from dppipe.privacy.charges import charged_steps
from dppipe.privacy.tradeoff.limits_of_cost import limits_of_cost
from dppipe.privacy.tradeoff.profile import understates_cost
from dppipe.runs.files import read_summary
from dppipe.runs.released_files import count_released
from dppipe.runs.verification.checkpoint_heads import checkpoint_head

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.privacy.accountants.base import Accountant, Composition
    from dppipe.privacy.ledger_reading import LedgerRows
    from dppipe.runs.directory import RunDirectory

_POINTS_CHECKED = 20
"""Claims are compared at the ends of this many stretches of equal claims, including the last."""
_CLAIMED = ("epsilon", "delta", "relation", "unit", "accountant")
"""What a summary states of its plan: the claim, and what it is a claim of."""
_TOLERANCE = 1e-4
"""PLD's own discretisation: two ways of composing the same steps differ by this much at most."""


def split_faults(run: RunDirectory, plan: Plan) -> Iterator[str]:
    """Report an `add_remove` run of a version that split records by position.

    Its epsilon doesn't cover that.
    """
    if plan.spec_hash and plan.relation == "add_remove" and plan.split == "position":
        yield (
            f"{run.plan}: expected a split by a hash of each record under add_remove, got one by "
            "position. With it one record decides where others go, which no epsilon here covers."
        )


def shape_faults(
    run: RunDirectory, found: LedgerRows, plan: Plan, *, charged: int
) -> Iterator[str]:
    """Report a torn end, claims that fall, and rows or a plan that the summary doesn't state."""
    if found.torn:
        yield (
            f"{run.ledger}:{found.rows + 1}: expected a whole row, got a torn one. It counts as "
            "charged; resume closes it."
        )
    elif not found.ended:
        yield (
            f"{run.ledger}:{found.rows}: expected a newline after the row, got the end of the "
            "file. The row counts."
        )
    claims = [charge.epsilon for charge in found.charges]
    for number, (before, after) in enumerate(pairwise(claims), start=2):
        if after < before:
            yield f"{run.ledger}:{number}: expected epsilon of at least {before!r}, got {after!r}."
    if run.summary.exists():
        yield from _summary_faults(run, found, charged=charged)
        yield from _claimed_faults(run, found, plan)
    else:
        yield from _checkpoint_faults(run, found)


def released_faults(run: RunDirectory, found: LedgerRows, plan: Plan) -> Iterator[str]:
    """Report values that were released, beside steps, and have no row."""
    released = count_released(run, plan) if plan.private else 0
    if released > found.rows:
        yield (
            f"{run.ledger}: expected a row for each of {released} released values, got "
            f"{found.rows}. Last rows were taken out."
        )


def _summary_faults(run: RunDirectory, found: LedgerRows, *, charged: int) -> Iterator[str]:
    summary = read_summary(run)
    if summary.get("ledger_head") != found.head:
        yield (
            f"{run.ledger}: expected the head that the summary names, got {found.head}. Last rows "
            "were added or taken out."
        )
    if summary.get("charged") != charged:
        yield (
            f"{run.ledger}: expected {summary.get('charged')} charges, as the summary says, got "
            f"{charged}."
        )


def _claimed_faults(run: RunDirectory, found: LedgerRows, plan: Plan) -> Iterator[str]:
    """Report a summary that claims something else than the plan, or less than the rows.

    A failed run is never certified: what it left may not be what was planned.
    """
    summary = read_summary(run)
    for name in _CLAIMED:
        planned = getattr(plan, name)
        if summary.get(name, planned) != planned:
            yield (
                f"{run.summary}: {name}: expected {planned}, as the plan says, got {summary[name]}."
            )
    last = found.charges[-1].epsilon if found.charges else 0.0
    spent = summary.get("epsilon_spent")
    if isinstance(spent, int | float) and not spent >= last:
        yield f"{run.summary}: epsilon_spent: expected {last}, as the last row says, got {spent}."
    certain = plan.certified and summary.get("status") != "failed"
    if summary.get("certified") and not certain:
        yield f"{run.summary}: certified: expected false, got true."


def _checkpoint_faults(run: RunDirectory, found: LedgerRows) -> Iterator[str]:
    """Report a ledger without the rows that the last checkpoint of a killed run has seen."""
    try:
        head = checkpoint_head(run)
    except UsageError as error:
        yield str(error)
        return
    if head is not None and head not in found.heads:
        yield (
            f"{run.ledger}: expected the row that the checkpoint names, got none with the hash "
            f"{head}. Last rows were taken out."
        )


def claim_faults(
    run: RunDirectory, found: LedgerRows, accountant: Accountant, *, delta: float
) -> Iterator[str]:
    """Report rows that claim less than the rows up to them cost."""
    claims = [charge.epsilon for charge in found.charges]
    chosen = _checked_rows(claims)
    paid = [sum(charge.count for charge in found.charges[:row]) for row in chosen]
    spent = accountant.spending(
        charged_steps(found.charges),
        sorted(set(paid)),
        delta=delta,
        relation=found.charges[-1].relation,
        rounding=False,
    )
    costs = dict(spent)
    for row, count in zip(chosen, paid, strict=True):
        cost = costs[count]
        claimed = claims[row - 1]
        # The comparison is written so that a cost of NaN is a fault.
        if not cost <= claimed + _TOLERANCE:
            yield (
                f"{run.ledger}:{row}: expected epsilon of at least {cost:.6f}, as the rows cost, "
                f"got {claimed:.6f}."
            )


def limit_faults(run: RunDirectory, plan: Plan, cost: Composition) -> Iterator[str]:
    """Report a plan that leaves less to attackers than the rows do; earlier versions don't say."""
    if plan.attack_limits is None or plan.delta is None:
        return
    if plan.schedule == "filter":
        return  # its limits follow from the budget, which each row is checked against
    if plan.attack_limits.understates(limits_of_cost(cost, delta=plan.delta)):
        yield (
            f"{run.plan}: attack_limits: expected at least what the rows leave to an attacker, "
            "got less."
        )
    if understates_cost(plan.whole_curve, cost, delta=plan.delta):
        yield (
            f"{run.plan}: whole_curve.profile: expected deltas of at least what the rows cost, "
            "got less."
        )


def _checked_rows(claims: Sequence[float]) -> list[int]:
    """Return rows at which claims are tightest: the last row of a stretch of equal claims."""
    ends = [row for row, (now, later) in enumerate(pairwise(claims), start=1) if now != later]
    ends.append(len(claims))
    chosen = set()
    for index in range(1, _POINTS_CHECKED + 1):
        chosen.add(ends[index * len(ends) // _POINTS_CHECKED - 1])
    return sorted(chosen)
