"""How a run is bound to a scope: the seam that training calls, once before the first step and once after the last.

    binding = bind_run(Store(), "clinic", run_dir=run_dir, plan=plan, parts=parts, data=spec.data)
    ...  # charge, release, and close the ledger
    settle_run(binding)

Read next: `identity.py`, what a run is called in its store; `reconcile.py`, how its ledger is settled.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dppipe.budgets.advice import with_advice
from dppipe.budgets.commitments import commit
from dppipe.budgets.fingerprints import fingerprints
from dppipe.budgets.identity import has_identity, read_identity, take_identity
from dppipe.budgets.outlook import scope_facts
from dppipe.budgets.reconcile import Reconciled, reconcile_run
from dppipe.budgets.scopes import Entry
from dppipe.budgets.store import Store
from dppipe.component import Component
from dppipe.errors import BudgetExhausted, PrivacyRefusal, StoreFailed
from dppipe.planning.plan import Plan
from dppipe.planning.privacy_plan import PrivateParts
from dppipe.privacy.charges import LedgerRows, digest, read_ledger
from dppipe.privacy.events.sequences import total


@dataclass(frozen=True)
class Binding:
    """A run that has reserved in a scope."""

    store: Store
    entry: Entry
    run_dir: Path
    """Where the run stands now: it may have been moved since it reserved."""
    reserved: Mapping[str, Any]
    """The scope's facts when the run had reserved."""

    def facts(self) -> dict[str, Any]:
        """Return the scope's facts now, with all that this run has reserved.

        Where the store fails, they are those of the moment at which the run reserved.
        """
        try:
            return scope_facts(self.store.status(self.entry.scope))
        except StoreFailed:
            return dict(self.reserved)


def bind_run(
    store: Store,
    scope: str,
    *,
    run_dir: Path,
    plan: Plan,
    parts: PrivateParts,
    data: Component | None = None,
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
        raise PrivacyRefusal(
            f"{store.place}: expected the store that this run has reserved in, got another. Set DPPIPE_STORE."
        )
    if before is not None:
        _check_place(before, run_dir=run_dir)
    if before is not None and before.state == "settled":
        _check_settled(store, before, ledger, run_dir=run_dir)
    marks = fingerprints(store, data) if data is not None else ()
    plan_hash = digest(plan_bytes)
    try:
        entry = store.reserve(
            scope,
            run_id,
            commitment,
            run_dir=run_dir,
            plan_hash=plan_hash,
            fingerprints=marks,
        )
    except BudgetExhausted as error:
        if before is not None:  # a run that goes on has no choice of epsilon any more
            raise
        raise BudgetExhausted(with_advice(str(error), store.status(scope), plan, parts)) from error
    return Binding(store, entry, run_dir, scope_facts(store.status(scope)))


def settle_run(binding: Binding) -> Reconciled:
    """Settle from the run's own ledger, which must be closed; if that fails, the reservation stays for `reconcile`."""
    return reconcile_run(binding.store, binding.entry, run_dir=binding.run_dir)


def _check_place(before: Entry, *, run_dir: Path) -> None:
    """Of several copies of a run on one machine, only the one that went on last goes on, unless that is gone."""
    place = Path(before.run_dir)
    if before.host != socket.gethostname() or place.resolve() == run_dir.resolve():
        return
    if has_identity(place) and (read_identity(place) or {}).get("run_id") == before.run_id:
        raise PrivacyRefusal(
            f"{place}: expected this run to be in one place, got another copy of it, which went on last."
        )


def _check_settled(store: Store, settled: Entry, ledger: LedgerRows, *, run_dir: Path) -> None:
    """A ledger isn't touched between its settlement and the next start: one that holds less has lost charges."""
    known, found = (
        total(store.run_steps(settled.run_id)),
        sum(charge.count for charge in ledger.charges) + bool(ledger.torn),
    )
    if found != known:
        raise PrivacyRefusal(
            f"{run_dir / 'ledger.jsonl'}: expected the {known} charges that were settled for this run, got {found}. "
            "It was put back from a copy, or a copy of it has gone on: start a new run."
        )
