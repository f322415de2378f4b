"""How a run is bound to a scope: the seam that training calls, once before the first step and once after the last.

    binding = bind_run(Store(), "clinic", run_dir=run_dir, plan=plan, parts=parts, data=spec.data)
    ...  # charge, release, and close the ledger
    settle_run(binding)

The run's id is made up anew for every new run directory and kept in its `budget.json`: a directory that was deleted and used
again is another run, whose predecessor's reservation stays.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dppipe.budgets.fingerprints import data_contents
from dppipe.budgets.reconcile import Reconciled, reconcile_run
from dppipe.budgets.scopes import Entry
from dppipe.budgets.store import Store
from dppipe.component import Component
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.plan import Plan
from dppipe.planning.privacy_plan import PrivateParts
from dppipe.privacy.charges import digest, read_ledger
from dppipe.privacy.filters import Commitment


@dataclass(frozen=True)
class Binding:
    """A run that has reserved in a scope."""

    store: Store
    entry: Entry


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

    Guarantee: when this returns, all that the run's plan can charge is set aside in the scope. Call it before the first step
    of every start, with `plan.json` written and the ledger made.
    """
    plan_bytes = (run_dir / "plan.json").read_bytes()
    rows = read_ledger(run_dir / "ledger.jsonl", plan=plan_bytes).rows
    commitment = commit(plan, parts)
    run_id = _identity(run_dir / "budget.json", scope=scope, place=store.place, fresh=rows == 0)
    if rows and store.find(run_id) is None:
        raise PrivacyRefusal(f"{store.place}: expected the store that this run has reserved in, got another. Set DPPIPE_STORE.")
    fingerprint = store.fingerprint(data_contents(data)) if data is not None else None
    entry = store.reserve(scope, run_id, commitment, run_dir=run_dir, plan_hash=digest(plan_bytes), fingerprint=fingerprint)
    return Binding(store, entry)


def settle_run(binding: Binding) -> Reconciled:
    """Settle from the run's own ledger, which must be closed; if that fails, the reservation stays for `reconcile`."""
    return reconcile_run(binding.store, binding.entry)


def _identity(path: Path, *, scope: str, place: str, fresh: bool) -> str:
    if path.exists():
        known = _read(path)
        if known.get("scope") != scope:
            raise PrivacyRefusal(f"budget.scope: expected {known.get('scope')!r}, which this run has reserved in, got {scope!r}.")
        return str(known.get("run_id"))
    if not fresh:
        raise PrivacyRefusal(
            f"{path}: expected the id that this run has reserved with, got no file. Its charges are in no scope."
        )
    run_id = f"{path.absolute().parent.name}-{secrets.token_hex(8)}"
    data = json.dumps({"run_id": run_id, "scope": scope, "store": place}, indent=2).encode() + b"\n"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DSYNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
    return run_id


def _read(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_bytes())
    except ValueError:
        known = None
    if not isinstance(known, dict):
        raise PrivacyRefusal(f"{path}: expected the id that this run has reserved with, got a damaged file.")
    return known
