"""The store of budgets: a run reserves before it starts, and settles what it did.

Nothing is granted twice, whatever processes, crashes and machines do: a reservation counts in full
until it is settled, also after a crash, and it is settled from the run's own ledger. Read next:
`granting.py`, what decides; `dppipe.privacy.filters.filters`, why these sums; `reconcile.py`, what
happens after a crash.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dppipe.budgets import tables
from dppipe.budgets.entries import (
    add_entry,
    all_entries,
    find_entry,
    has_fingerprints,
    last_entries,
    scopes_of,
    steps_of,
)
from dppipe.budgets.fitting import refusal
from dppipe.budgets.granting import check_terms, grant, settled_cost
from dppipe.budgets.scope_rows import add_scope, delete_scope, find_scope, now, scope_names
from dppipe.budgets.scopes import Entry, Scope, Status, counted
from dppipe.errors import BudgetExhausted, DppipeError, PrivacyRefusal, UsageError
from dppipe.privacy.events.sequences import Steps
from dppipe.privacy.filters.filters import Commitment
from dppipe.spec.messages.suggestions import suggest_name
from dppipe.text_layout import shown_command

_NAMED = 5
"""How many runs a message names."""


class Store:
    """The budgets that runs share.

    Guarantees:
    - In every scope, what is reserved and what is settled add up to at most the capacity of its
      filter, at every moment.
    - A settlement follows a ledger, so it is never below what was released.

    Example:
        >>> from dppipe.budgets import Scope, Store
        >>> store = Store("budgets.db")
        >>> store.create(Scope.make("patients", epsilon=4.0, delta=1e-6))
        >>> store.scopes()
        ['patients']
    """

    def __init__(self, place: str | Path | None = None, *, make: bool = True) -> None:
        """Open a file or a PostgreSQL URL; by default DPPIPE_STORE, else `.dppipe/budgets.db`.

        Without `make` a place that holds no store is a NoStore, and nothing is written there.
        """
        self._database = tables.Database(place, make=make)
        self.place = self._database.place

    def create(self, scope: Scope) -> None:
        """Add a scope; its terms never change."""
        with self._database.transaction() as connection:
            if find_scope(connection, scope.name) is not None:
                command = shown_command("budget", "delete", scope.name)
                way_out = f"delete it with `{command}`, while no run has used it"
                raise UsageError(
                    f"{self.place}: expected a new name, got scope {scope.name!r}, which exists. "
                    f"Its terms are fixed: take another name, or {way_out}."
                )
            add_scope(connection, scope)

    def delete(self, scope: str) -> None:
        """Delete a scope that no run has ever reserved in.

        Guarantee: entries never disappear. A run that reserves at the same moment is either seen
        here, and the scope stays, or finds no scope.
        """
        with self._database.transaction() as connection:
            used = self._status(connection, scope).runs
            if used:
                raise PrivacyRefusal(
                    f"{scope}: expected a scope that no run has used, got one with "
                    f"{_named_runs(used)}. What runs have reserved or charged stays on record: "
                    "nothing was deleted."
                )
            delete_scope(connection, scope)

    def scopes(self) -> list[str]:
        """Return the names of all scopes."""
        with self._database.transaction() as connection:
            return scope_names(connection)

    def status(self, scope: str, *, key: str = "SCOPE") -> Status:
        """Return how much of a scope is used, and by which runs; `key` is its name in messages."""
        with self._database.transaction() as connection:
            return self._status(connection, scope, key=key)

    def reserve(
        self,
        scope: str,
        run_id: str,
        commitment: Commitment,
        *,
        run_dir: Path | str,
        plan_hash: str,
        fingerprints: Sequence[str] = (),
    ) -> Entry:
        """Reserve what a run may cost at most, before its first step; refuse a run that won't fit.

        A resumed run asks again; its reservation stays, or is made anew if it was settled.

        Args:
            scope: The name of the scope.
            run_id: The id that only this run has.
            commitment: The run's whole plan.
            run_dir: The directory of its ledger, for `reconcile`.
            plan_hash: The SHA-256 of its plan.json, where the ledger's chain starts.
            fingerprints: All that `fingerprints` returns for the dataset; the first is stored.
        """
        # The terms never change, so the slow sums are done before others have to wait.
        terms = self.status(scope, key="budget.scope").scope
        check_terms(terms, relation=commitment.relation, unit=commitment.unit)
        asked = Entry(
            run_id=run_id,
            scope=scope,
            state="reserved",
            cost=terms.rule.cost(commitment),
            epsilon=float(commitment.epsilon),
            delta=float(commitment.delta),
            run_dir=str(Path(run_dir).absolute()),
            plan_hash=plan_hash,
            fingerprint=next(iter(fingerprints), None),
            host=socket.gethostname(),
            at=now(),
        )
        return self._grant(asked, terms, commitment, fingerprints)

    def settle(self, run_id: str, spent: Steps) -> Entry:
        """Replace a run's reservation by what its whole ledger charged.

        Settling the same again changes nothing.
        """
        with self._database.transaction() as connection:
            entry = find_entry(connection, run_id)
            if entry is None:
                raise UsageError(
                    f"{self.place}: expected a run with a reservation, got {run_id!r}, which has "
                    "none."
                )
            cost = settled_cost(self._status(connection, entry.scope).scope, entry, spent)
            if entry.state == "reserved":
                settled = replace(entry, state="settled", cost=cost, at=now())
                return add_entry(connection, settled, spent)
            if cost != entry.cost:
                raise DppipeError(
                    f"{run_id}: expected the recorded settlement, got another. Resume the run "
                    "to reserve anew."
                )
            return entry

    def steps(self, scope: str) -> list[tuple[Any, int]]:
        """Return all that the runs of a scope did, or may still do, in the order of the runs."""
        steps = []
        with self._database.transaction() as connection:
            for run_id in last_entries(connection, scope):
                steps += steps_of(connection, run_id)
        return steps

    def run_steps(self, run_id: str) -> list[tuple[Any, int]]:
        """Return what one run did, or may do at most while it isn't settled."""
        with self._database.transaction() as connection:
            return steps_of(connection, run_id)

    def find(self, run_id: str) -> Entry | None:
        """Return the last entry of a run; None where it never reserved."""
        with self._database.transaction() as connection:
            return find_entry(connection, run_id)

    def history(self, scope: str) -> list[Entry]:
        """Return every entry that a scope ever had, the oldest first."""
        with self._database.transaction() as connection:
            return all_entries(connection, scope)

    def fingerprint(self, contents: Iterable[bytes]) -> str:
        """Return a dataset's fingerprint under this store's key.

        A renamed copy has the same one. Without the key it says nothing about the records.

        Args:
            contents: The digest of each file of the dataset, in any order.
        """
        query = sa.select(tables.facts.c.value).where(tables.facts.c.name == "key")
        with self._database.transaction() as connection:
            key = connection.execute(query).scalar_one()
        code = hmac.new(bytes.fromhex(key), digestmod="sha256")
        for content in sorted(contents):
            code.update(len(content).to_bytes(8, "big") + content)
        return code.hexdigest()

    def has_fingerprints(self) -> bool:
        """Whether some run has left a fingerprint of its data."""
        with self._database.transaction() as connection:
            return has_fingerprints(connection)

    def scope_of(self, *fingerprints: str) -> str | None:
        """Return the scope that a dataset is charged to under one of its fingerprints, if any."""
        with self._database.transaction() as connection:
            return next(iter(scopes_of(connection, fingerprints)), None)

    def _grant(
        self, asked: Entry, terms: Scope, commitment: Commitment, fingerprints: Sequence[str]
    ) -> Entry:
        """Compare what a run asks for with what all others hold, and reserve it, at one moment."""
        with self._database.transaction() as connection:
            status = self._status(connection, asked.scope, key="budget.scope")
            if status.scope != terms:
                raise PrivacyRefusal(
                    f"budget.scope: {asked.scope!r} was deleted and made anew while this run "
                    "started. Start it again."
                )
            entry = grant(
                connection, asked, status, steps=commitment.steps, fingerprints=fingerprints
            )
        if entry is None:
            raise BudgetExhausted(refusal(status.without(asked.run_id), commitment))
        return entry

    def _status(self, connection: sa.Connection, name: str, *, key: str = "SCOPE") -> Status:
        scope = find_scope(connection, name)
        if scope is None:
            meant = suggest_name(name, scope_names(connection))
            make = f"{shown_command('budget', 'create', name)} --epsilon E --like SPEC"
            way_out = meant or f" Make it with `{make}`."
            raise UsageError(f"{key}: no scope named {name!r} in {self.place}.{way_out}")
        return Status(scope, tuple(last_entries(connection, name).values()))


def _named_runs(runs: Sequence[Entry]) -> str:
    """Name the first runs of a scope and count the others."""
    named = ", ".join(f"{entry.run_id} ({entry.state}, {entry.run_dir})" for entry in runs[:_NAMED])
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    return f"{counted(len(runs))}: {named}{more}"
