"""What decides about a reservation and a settlement; the store does both inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dppipe.budgets.entries import add_entry, find_entry, scopes_of
from dppipe.budgets.scope_rows import now
from dppipe.budgets.scopes import Entry, Scope, Status
from dppipe.errors import PrivacyRefusal
from dppipe.privacy.events.sequences import Steps
from dppipe.privacy.filters.filters import Amount, Commitment

if TYPE_CHECKING:
    import sqlalchemy as sa


def check_terms(scope: Scope, *, relation: str, unit: str) -> None:
    """Refuse a run that is measured under another relation or unit than its scope."""
    for name, wanted, given in (("relation", scope.relation, relation), ("unit", scope.unit, unit)):
        if given != wanted:
            expected = f"expected {wanted}, as scope {scope.name!r} is measured in, got {given}"
            raise PrivacyRefusal(f"budget.{name}: {expected}. Set {wanted}, or name another scope.")


def grant(
    connection: sa.Connection,
    asked: Entry,
    status: Status,
    *,
    steps: Steps,
    fingerprints: Sequence[str],
) -> Entry | None:
    """Reserve what a run asks for if it fits beside all other runs; None where it doesn't fit.

    Args:
        connection: An open transaction, which excludes all others.
        asked: The reservation.
        status: The scope as this transaction sees it.
        steps: What the run may do at most.
        fingerprints: The fingerprints of the run's dataset.
    """
    before = find_entry(connection, asked.run_id)
    _refuse_other_plan(before, asked)
    _refuse_other_scope(connection, asked.scope, fingerprints)
    wanted = replace(asked, at=now())
    if before is not None:
        wanted = replace(wanted, cost=_larger(asked.cost, before.cost))
        if _holds_as_much(before, wanted):
            return before
    if not status.without(asked.run_id).fits(wanted.cost):
        return None
    return add_entry(connection, wanted, steps)


def settled_cost(scope: Scope, entry: Entry, spent: Steps) -> Amount:
    """Return what a run costs once its whole ledger is known."""
    if not any(count for _, count in spent):
        return Amount()  # nothing was charged, so nothing was released
    if not scope.rule.refunds:
        return entry.cost
    charged = Commitment(spent, scope.relation, scope.unit, entry.epsilon, entry.delta)
    return scope.rule.cost(charged)


def _refuse_other_plan(before: Entry | None, asked: Entry) -> None:
    if before is None:
        return
    if before.scope != asked.scope or before.plan_hash != asked.plan_hash:
        raise PrivacyRefusal(
            f"{asked.run_id}: expected the scope and the plan that this run has reserved with, "
            "got others."
        )


def _refuse_other_scope(connection: sa.Connection, scope: str, fingerprints: Sequence[str]) -> None:
    """Refuse a dataset that is charged to another scope already."""
    for name in scopes_of(connection, fingerprints):
        if name != scope:
            raise PrivacyRefusal(
                f"budget.scope: expected {name!r}, which this very data set is charged to, got "
                f"{scope!r}. A copy under another name shares the budget: name that scope."
            )


def _holds_as_much(before: Entry, wanted: Entry) -> bool:
    """Whether a run has reserved as much already, and still is where it was then."""
    same_place = before.run_dir == wanted.run_dir and before.host == wanted.host
    return same_place and before.state == wanted.state and before.cost == wanted.cost


def _larger(cost: Amount, spent: Amount) -> Amount:
    return Amount(max(cost.amount, spent.amount), max(cost.delta, spent.delta))
