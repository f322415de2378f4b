"""After a crash: settle runs that have reserved and never settled, from their ledgers.

A ledger that can't be found or trusted settles nothing: its reservation stays in full, which can
waste budget but never hide spending. A torn last line counts as the release that would have been
next or, if that is a step, as one at the largest cost that the run has reserved.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from dppipe.budgets.identity import read_identity
from dppipe.budgets.scopes import Entry
from dppipe.budgets.store import Store
from dppipe.errors import DppipeError, UsageError
from dppipe.planning.step_plan import plan_from_json
from dppipe.planning.torn_rows import torn_release
from dppipe.privacy.charges import charged_steps
from dppipe.privacy.filters.filters import Commitment
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.privacy.ledger_rows import digest


@dataclass(frozen=True)
class Reconciled:
    """The outcome for one reservation."""

    entry: Entry
    outcome: Literal["settled", "running", "kept"]
    why: str = ""


def reconcile(
    store: Store, scope: str, *, moved: Mapping[str, Path] | None = None
) -> list[Reconciled]:
    """Settle every reservation of a scope whose run has ended.

    Args:
        store: The store.
        scope: The name of the scope.
        moved: The new directories of runs that were moved, by run id.
    """
    places = moved or {}
    outcomes = []
    for entry in store.status(scope).runs:
        if entry.state == "reserved":
            outcomes.append(reconcile_run(store, entry, run_dir=places.get(entry.run_id)))
    return outcomes


def joined_epsilon(store: Store, scope: str) -> float | None:
    """Return what all runs would cost by PLD had they been planned together; None if unknown.

    It certifies nothing: each run was chosen after seeing the last. It shows what adaptivity costs.
    """
    from dppipe.privacy.accountants.pld import Pld

    terms = store.status(scope).scope
    steps = store.steps(scope)
    if not steps:
        return 0.0
    try:
        return Pld().compose(steps, relation=terms.relation).epsilon(terms.delta)
    except DppipeError:
        return None


def reconcile_run(store: Store, entry: Entry, *, run_dir: Path | None = None) -> Reconciled:
    """Settle one run from its ledger.

    The reservation stays where the ledger can't be read or trusted, or is in use.
    """
    directory = run_dir or Path(entry.run_dir)
    try:
        return _settle(store, entry, directory)
    except OSError as error:
        why = f"{error.filename} can't be read on this machine: {error.strerror}"
        return Reconciled(entry, "kept", f"{why}; it ran on {entry.host}")
    except DppipeError as error:
        return Reconciled(entry, "kept", str(error))


def _settle(store: Store, entry: Entry, directory: Path) -> Reconciled:
    plan_file = directory / "plan.json"
    ledger = directory / "ledger.jsonl"
    plan = plan_file.read_bytes()
    if digest(plan) != entry.plan_hash:
        why = f"{plan_file} is not the plan that the run reserved with"
        return Reconciled(entry, "kept", why)
    if (read_identity(directory) or {}).get("run_id") != entry.run_id:
        return Reconciled(entry, "kept", f"{directory} contains another run than {entry.run_id}")
    with _unused(ledger) as unused:
        if not unused:
            return Reconciled(entry, "running", f"a process has locked {ledger}")
        found = read_ledger(ledger, plan=plan)
        spent = charged_steps(found.charges)
        if found.torn:
            spent.append(_torn_charge(store, entry, plan, rows=found.rows))
        return Reconciled(store.settle(entry.run_id, spent), "settled")


def _torn_charge(store: Store, entry: Entry, plan: bytes, *, rows: int) -> tuple[Any, int]:
    """Return what a torn row after so many whole ones may have charged at most."""
    try:
        release = torn_release(plan_from_json(plan), rows)
    except ValidationError:
        raise UsageError(f"{entry.run_dir}: expected a plan of this version of dppipe.") from None
    if release is None:
        return _costliest(store, entry), 1
    return release.dp_event, release.count


def _costliest(store: Store, entry: Entry) -> Any:
    """Return the event with the largest cost among those that a run has reserved."""
    scope = store.status(entry.scope).scope
    events = {event for event, _ in store.run_steps(entry.run_id)}

    def cost(event: Any) -> float:
        once = Commitment([(event, 1)], scope.relation, scope.unit, entry.epsilon, entry.delta)
        return scope.rule.cost(once).amount

    return max(events, key=cost)


@contextmanager
def _unused(ledger: Path) -> Iterator[bool]:
    """Lock a ledger, so that its run can't go on meanwhile; yield False if the run is going on."""
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
