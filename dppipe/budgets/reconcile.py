"""After a crash: read the ledgers of runs that reserved and never settled, and settle what they charged.

A ledger that can't be found or trusted settles nothing: its reservation stays in full, which can waste budget and never hide
spending. A torn last line counts as one more charge, at the largest cost that the run had reserved for a step.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dppipe.budgets.identity import read_identity
from dppipe.budgets.scopes import Entry
from dppipe.budgets.store import Store
from dppipe.errors import DppipeError
from dppipe.privacy.charges import charged_steps, digest, read_ledger
from dppipe.privacy.filters.filters import Commitment


@dataclass(frozen=True)
class Reconciled:
    """What became of one reservation."""

    entry: Entry
    outcome: Literal["settled", "running", "kept"]
    why: str = ""


def reconcile(
    store: Store, scope: str, *, moved: Mapping[str, Path] | None = None
) -> list[Reconciled]:
    """Settle every reservation of a scope whose run has ended; `moved` says where a run's directory stands now."""
    reserved = [entry for entry in store.status(scope).runs if entry.state == "reserved"]
    return [
        reconcile_run(store, entry, run_dir=(moved or {}).get(entry.run_id)) for entry in reserved
    ]


def joined_epsilon(store: Store, scope: str) -> float | None:
    """Give what all runs would cost had they been planned together, by PLD; None where it can't be computed.

    It certifies nothing: each run was chosen after seeing the last. It shows what adaptivity costs.
    """
    from dppipe.privacy.accountants.pld import Pld

    terms, steps = store.status(scope).scope, store.steps(scope)
    try:
        return Pld().compose(steps, relation=terms.relation).epsilon(terms.delta) if steps else 0.0
    except DppipeError:
        return None


def reconcile_run(store: Store, entry: Entry, *, run_dir: Path | None = None) -> Reconciled:
    """Settle one run from its ledger; where that can't be read and trusted, or is in use, the reservation stays."""
    directory = run_dir or Path(entry.run_dir)
    try:
        plan = (directory / "plan.json").read_bytes()
        if digest(plan) != entry.plan_hash:
            return Reconciled(
                entry,
                "kept",
                f"{directory / 'plan.json'} is not the plan that the run reserved with",
            )
        if (read_identity(directory) or {}).get("run_id") != entry.run_id:
            return Reconciled(entry, "kept", f"{directory} holds another run than {entry.run_id}")
        with _unused(directory / "ledger.jsonl") as unused:
            if not unused:
                return Reconciled(entry, "running", f"a process holds {directory / 'ledger.jsonl'}")
            found = read_ledger(directory / "ledger.jsonl", plan=plan)
            spent = charged_steps(found.charges)
            if found.torn:
                spent.append((_costliest(store, entry), 1))
            return Reconciled(store.settle(entry.run_id, spent), "settled")
    except OSError as error:
        return Reconciled(
            entry,
            "kept",
            f"{error.filename} can't be read on this machine: {error.strerror}; it ran on {entry.host}",
        )
    except DppipeError as error:
        return Reconciled(entry, "kept", str(error))


def _costliest(store: Store, entry: Entry) -> Any:
    scope = store.status(entry.scope).scope
    events = {event for event, _ in store.run_steps(entry.run_id)}

    def cost(event: Any) -> float:
        return scope.rule.cost(
            Commitment([(event, 1)], scope.relation, scope.unit, entry.epsilon, entry.delta)
        ).amount

    return max(events, key=cost)


@contextmanager
def _unused(ledger: Path) -> Iterator[bool]:
    """Keep a run from going on while its ledger is read; False if it is going on now."""
    fd = os.open(ledger, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)
