"""How a run is bound to a scope: training calls this before the first step and after the last.

    binding = bind_run(Store(), "clinic", run_dir=run_dir, plan=plan, parts=parts, data=spec.data)
    ...  # charge, release, and close the ledger
    settle_run(binding)

Read next: `identity.py`, a run's id in its store; `reconcile.py`, how its ledger is settled.
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
from dppipe.planning.release_plan import LearnerParts
from dppipe.planning.torn_rows import torn_count
from dppipe.privacy.events.sequences import total
from dppipe.privacy.ledger_reading import LedgerRows, read_ledger
from dppipe.privacy.ledger_rows import digest


@dataclass(frozen=True)
class Binding:
    """A run that has reserved in a scope."""

    store: Store
    entry: Entry
    run_dir: Path
    """Where the run directory is now: it may have been moved since the run reserved."""
    reserved: Mapping[str, Any]
    """The scope's facts just after the run had reserved."""

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
    parts: PrivateParts | LearnerParts,
    data: Component | None = None,
) -> Binding:
    """Reserve what a new run may cost, or take up the reservation of a resumed run.

    Call it before the first step of every start, when `plan.json` is written and the ledger is
    made and locked.

    Guarantees, when this returns:
    - All that the run's plan can charge is reserved in the scope.
    - The ledger holds all that was settled for the run before. A ledger that was restored from a
      copy is refused.
    """
    plan_bytes = (run_dir / "plan.json").read_bytes()
    ledger = read_ledger(run_dir / "ledger.jsonl", plan=plan_bytes)
    commitment = commit(plan, parts)
    run_id = take_identity(run_dir, scope=scope, place=store.place, fresh=ledger.rows == 0)
    before = store.find(run_id)
    _check_before(store, before, ledger, plan=plan, run_dir=run_dir)
    try:
        entry = store.reserve(
            scope,
            run_id,
            commitment,
            run_dir=run_dir,
            plan_hash=digest(plan_bytes),
            fingerprints=fingerprints(store, data) if data is not None else (),
        )
    except BudgetExhausted as error:
        if before is not None:  # a resumed run can't choose another epsilon
            raise
        raise BudgetExhausted(with_advice(str(error), store.status(scope), plan, parts)) from error
    return Binding(store, entry, run_dir, scope_facts(store.status(scope)))


def settle_run(binding: Binding) -> Reconciled:
    """Settle a run from its own ledger, which must be closed.

    If that fails, the reservation stays for `reconcile`.
    """
    return reconcile_run(binding.store, binding.entry, run_dir=binding.run_dir)


def _check_before(
    store: Store, before: Entry | None, ledger: LedgerRows, *, plan: Plan, run_dir: Path
) -> None:
    """Compare a run with its last entry in the store, if it has one."""
    if before is None:
        if ledger.rows:
            raise PrivacyRefusal(
                f"{store.place}: expected the store that this run has reserved in, got another. "
                "Set DPPIPE_STORE."
            )
        return
    _check_place(before, run_dir=run_dir)
    if before.state == "settled":
        _check_settled(store, before, ledger, plan=plan, run_dir=run_dir)


def _check_place(before: Entry, *, run_dir: Path) -> None:
    """Refuse a copy of a run while another copy, which was used last, is on this machine."""
    place = Path(before.run_dir)
    if before.host != socket.gethostname() or place.resolve() == run_dir.resolve():
        return
    if has_identity(place) and (read_identity(place) or {}).get("run_id") == before.run_id:
        raise PrivacyRefusal(
            f"{place}: expected this run to be in one place, got another copy of it, which went on "
            "last."
        )


def _check_settled(
    store: Store, settled: Entry, ledger: LedgerRows, *, plan: Plan, run_dir: Path
) -> None:
    """Refuse a ledger that has changed since its settlement: charges may be missing in it."""
    known = total(store.run_steps(settled.run_id))
    found = sum(charge.count for charge in ledger.charges)
    if ledger.torn:
        found += torn_count(plan, ledger.rows)
    if found != known:
        raise PrivacyRefusal(
            f"{run_dir / 'ledger.jsonl'}: expected the {known} charges that were settled for this "
            f"run, got {found}. It was put back from a copy, or a copy of it has gone on: start a "
            "new run."
        )
