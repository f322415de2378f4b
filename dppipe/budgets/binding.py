"""How a run is bound to a scope: the seam that training calls, once before the first step and once after the last.

    binding = bind_run(Store(), "clinic", run_dir=run_dir, plan=plan, parts=parts, data=spec.data)
    ...  # charge, release, and close the ledger
    settle_run(binding)

Read next: `identity.py`, what a run is called in its store; `reconcile.py`, how its ledger is settled.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from dppipe.budgets.fingerprints import data_contents
from dppipe.budgets.identity import has_identity, read_identity, take_identity
from dppipe.budgets.reconcile import Reconciled, reconcile_run
from dppipe.budgets.scopes import Entry
from dppipe.budgets.store import Store
from dppipe.component import Component
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.plan import Plan
from dppipe.planning.privacy_plan import PrivateParts
from dppipe.privacy.charges import LedgerRows, digest, read_ledger
from dppipe.privacy.filters import Commitment
from dppipe.privacy.steps import total


@dataclass(frozen=True)
class Binding:
    """A run that has reserved in a scope."""

    store: Store
    entry: Entry
    run_dir: Path
    """Where the run stands now: it may have been moved since it reserved."""


def commit(plan: Plan, parts: PrivateParts) -> Commitment:
    """Give the most that a planned run may do; a run without a guarantee has none to give."""
    if plan.relation is None or plan.epsilon is None or plan.delta is None:
        raise UsageError("budget.scope: expected a run with a budget, got budget: none. Take the scope or the `none` away.")
    if plan.schedule == "filter":
        raise PrivacyRefusal(
            "budget.scope: expected noise that is fixed in the plan, got a schedule that follows released values."
        )
    if plan.reproducible:
        raise PrivacyRefusal("budget.scope: expected a run with secret noise, got reproducible: true, which gives no protection.")
    return Commitment(parts.committed(plan), plan.relation, plan.unit, plan.epsilon, plan.delta)


def bind_run(
    store: Store, scope: str, *, run_dir: Path, plan: Plan, parts: PrivateParts, data: Component | None = None
) -> Binding:
    """Reserve what a new run may cost, or take up the reservation of one that is resumed.

    Guarantee: when this returns, all that the run's plan can charge is set aside in the scope, and the ledger holds whatever
    was settled for the run before: one that was put back from a copy is refused. Call it before the first step of every start,
    with `plan.json` written and the ledger made and locked.
    """
    plan_bytes = (run_dir / "plan.json").read_bytes()
    ledger = read_ledger(run_dir / "ledger.jsonl", plan=plan_bytes)
    commitment = commit(plan, parts)
    run_id = take_identity(run_dir, scope=scope, place=store.place, fresh=ledger.rows == 0)
    before = store.find(run_id)
    if ledger.rows and before is None:
        raise PrivacyRefusal(f"{store.place}: expected the store that this run has reserved in, got another. Set DPPIPE_STORE.")
    if before is not None:
        _check_place(before, run_dir=run_dir)
    if before is not None and before.state == "settled":
        _check_settled(store, before, ledger, run_dir=run_dir)
    fingerprint = store.fingerprint(data_contents(data)) if data is not None else None
    entry = store.reserve(scope, run_id, commitment, run_dir=run_dir, plan_hash=digest(plan_bytes), fingerprint=fingerprint)
    return Binding(store, entry, run_dir)


def settle_run(binding: Binding) -> Reconciled:
    """Settle from the run's own ledger, which must be closed; if that fails, the reservation stays for `reconcile`."""
    return reconcile_run(binding.store, binding.entry, run_dir=binding.run_dir)


def _check_place(before: Entry, *, run_dir: Path) -> None:
    """Of several copies of a run on one machine, only the one that went on last goes on, unless that is gone."""
    place = Path(before.run_dir)
    if before.host != socket.gethostname() or place.resolve() == run_dir.resolve():
        return
    if has_identity(place) and (read_identity(place) or {}).get("run_id") == before.run_id:
        raise PrivacyRefusal(f"{place}: expected this run to be in one place, got another copy of it, which went on last.")


def _check_settled(store: Store, settled: Entry, ledger: LedgerRows, *, run_dir: Path) -> None:
    """A ledger isn't touched between its settlement and the next start: one that holds less has lost charges."""
    known, found = total(store.run_steps(settled.run_id)), sum(charge.count for charge in ledger.charges) + bool(ledger.torn)
    if found != known:
        raise PrivacyRefusal(
            f"{run_dir / 'ledger.jsonl'}: expected the {known} charges that were settled for this run, got {found}. "
            "It was put back from a copy, or a copy of it has gone on: start a new run."
        )
