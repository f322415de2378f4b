"""The store of budgets: a run reserves before it starts and settles what it did; a crashed run's reservation stays.

Nothing is granted twice, whatever processes, crashes and machines do: reservations count in full until they are settled, and
they are settled from the run's own ledger. Read next: `dppipe.privacy.filters.filters`, why these sums;
`reconcile.py`, after a crash.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dppipe.budgets import tables
from dppipe.budgets.entries import (
    add_entry,
    all_entries,
    find_entry,
    last_entries,
    scopes_of,
    steps_of,
)
from dppipe.budgets.fitting import refusal
from dppipe.budgets.scopes import Entry, Scope, Status, counted
from dppipe.errors import BudgetExhausted, DppipeError, PrivacyRefusal, UsageError
from dppipe.privacy.events.sequences import Steps
from dppipe.privacy.filters.filters import Amount, Commitment
from dppipe.spec.messages.suggestions import suggest_name

_NAMED = 5
"""How many runs a message names."""


class Store:
    """The budgets that runs share.

    Guarantee: in every scope, what is reserved and what is settled add up to at most the capacity of its filter, at every
    moment; a settlement follows a ledger, so it is never below what was released.
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
            if _options(connection, scope.name) is not None:
                command = f"dppipe budget delete {scope.name}"
                way_out = f"delete it with `{command}`, while no run has used it"
                raise UsageError(
                    f"{self.place}: expected a new name, got scope {scope.name!r}, which exists. "
                    f"Its terms are fixed: take another name, or {way_out}."
                )
            connection.execute(
                sa.insert(tables.scopes).values(
                    name=scope.name, options=scope.model_dump(mode="json"), at=_now()
                )
            )

    def delete(self, scope: str) -> None:
        """Delete a scope that no run has ever reserved in.

        Guarantee: entries never disappear. A run that reserves at the same moment is either seen
        here, and the scope stays, or finds no scope.
        """
        with self._database.transaction() as connection:
            self._status(connection, scope)
            used = last_entries(connection, scope)
            if used:
                runs = _named_runs(list(used.values()))
                raise PrivacyRefusal(
                    f"{scope}: expected a scope that no run has used, got one with {runs}. "
                    "What runs have reserved or charged stays on record: nothing was deleted."
                )
            connection.execute(sa.delete(tables.scopes).where(tables.scopes.c.name == scope))

    def scopes(self) -> list[str]:
        """Give the names of all scopes."""
        with self._database.transaction() as connection:
            return _names(connection)

    def status(self, scope: str, *, key: str = "SCOPE") -> Status:
        """Say how much of a scope is used, and by which runs; messages say that `key` named it."""
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
        """Set aside what a run may cost at most, before its first step; a run that doesn't fit is refused with what would.

        A run that is resumed asks again under its own id and plan: its reservation stands, with the place where it is now, or is
        made anew if it was settled.

        Args:
            scope: The name of the scope.
            run_id: What this run alone is called.
            commitment: The run's whole plan.
            run_dir: Where its ledger stands, for `reconcile`.
            plan_hash: The SHA-256 of its plan.json, where the ledger's chain starts.
            fingerprints: What `fingerprint` gives for the data set, and what earlier versions gave.
                The first is noted; records that are charged elsewhere under any are refused.
        """
        terms = self.status(
            scope, key="budget.scope"
        ).scope  # fixed for good, so the slow sums are done before others have to wait
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
            at=_now(),
        )
        return self._grant(asked, terms, commitment, fingerprints)

    def settle(self, run_id: str, spent: Steps) -> Entry:
        """Replace a run's reservation by what its whole ledger charged; settling the same again changes nothing."""
        with self._database.transaction() as connection:
            entry = find_entry(connection, run_id)
            if entry is None:
                raise UsageError(
                    f"{self.place}: expected a run with a reservation, got {run_id!r}, which has none."
                )
            cost = _settled_cost(self._status(connection, entry.scope).scope, entry, spent)
            if entry.state == "reserved":
                return add_entry(
                    connection, replace(entry, state="settled", cost=cost, at=_now()), spent
                )
            if cost != entry.cost:
                raise DppipeError(
                    f"{run_id}: expected the settlement that stands, got another. Resume the run to reserve anew."
                )
            return entry

    def steps(self, scope: str) -> list[tuple[Any, int]]:
        """Give everything that the runs of a scope did, or may still do, in the order of the runs."""
        with self._database.transaction() as connection:
            return [
                step
                for run_id in last_entries(connection, scope)
                for step in steps_of(connection, run_id)
            ]

    def run_steps(self, run_id: str) -> list[tuple[Any, int]]:
        """Give what one run did, or may do at most while it isn't settled."""
        with self._database.transaction() as connection:
            return steps_of(connection, run_id)

    def find(self, run_id: str) -> Entry | None:
        """Give what now stands for a run; None where it never reserved."""
        with self._database.transaction() as connection:
            return find_entry(connection, run_id)

    def history(self, scope: str) -> list[Entry]:
        """Give every entry that a scope ever had, the oldest first."""
        with self._database.transaction() as connection:
            return all_entries(connection, scope)

    def fingerprint(self, contents: Iterable[bytes]) -> str:
        """Give a data set's fingerprint under this store's key: equal for a renamed copy, and nothing to those without the key.

        Args:
            contents: What the data set consists of, in any order: the digest of each file.
        """
        with self._database.transaction() as connection:
            key = connection.execute(
                sa.select(tables.facts.c.value).where(tables.facts.c.name == "key")
            ).scalar_one()
        code = hmac.new(bytes.fromhex(key), digestmod="sha256")
        for content in sorted(contents):
            code.update(len(content).to_bytes(8, "big") + content)
        return code.hexdigest()

    def has_fingerprints(self) -> bool:
        """Whether some run has left a fingerprint of its data."""
        with self._database.transaction() as connection:
            known = tables.entries.c.fingerprint.is_not(None)
            found = connection.execute(sa.select(tables.entries.c.id).where(known).limit(1))
            return found.first() is not None

    def scope_of(self, *fingerprints: str) -> str | None:
        """Return the scope that a data set is charged to under one of its fingerprints, if any."""
        with self._database.transaction() as connection:
            return next(iter(scopes_of(connection, fingerprints)), None)

    def _grant(
        self,
        asked: Entry,
        terms: Scope,
        commitment: Commitment,
        fingerprints: Sequence[str],
    ) -> Entry:
        """Compare what a run asks for with what all others hold, and set it aside, at one moment."""
        with self._database.transaction() as connection:
            before = find_entry(connection, asked.run_id)
            if before is not None and (before.scope, before.plan_hash) != (
                asked.scope,
                asked.plan_hash,
            ):
                raise PrivacyRefusal(
                    f"{asked.run_id}: expected the scope and the plan that this run has reserved with, got others."
                )
            status = self._status(connection, asked.scope, key="budget.scope")
            if status.scope != terms:
                changed = f"{asked.scope!r} was deleted and made anew while this run started"
                raise PrivacyRefusal(f"budget.scope: {changed}. Start it again.")
            _check_data(connection, asked.scope, fingerprints)
            wanted = replace(
                asked,
                cost=asked.cost if before is None else _at_least(asked.cost, before.cost),
                at=_now(),
            )
            if before is not None and _stands(before, wanted):
                return before
            others = status.without(asked.run_id)
            if others.fits(wanted.cost):
                return add_entry(connection, wanted, commitment.steps)
        raise BudgetExhausted(refusal(others, commitment))

    def _status(self, connection: sa.Connection, scope: str, *, key: str = "SCOPE") -> Status:
        options = _options(connection, scope)
        if options is None:
            meant = suggest_name(scope, _names(connection))
            make = f"dppipe budget create {scope} --epsilon E --like SPEC"
            way_out = meant or f" Make it with `{make}`."
            raise UsageError(f"{key}: no scope named {scope!r} in {self.place}.{way_out}")
        return Status(Scope.from_data(options), tuple(last_entries(connection, scope).values()))


def _stands(before: Entry, wanted: Entry) -> bool:
    """Whether a run has reserved as much already, and still is where it was then."""
    held, asked = (
        (entry.state, entry.cost, entry.run_dir, entry.host) for entry in (before, wanted)
    )
    return held == asked


def _at_least(cost: Amount, spent: Amount) -> Amount:
    return Amount(max(cost.amount, spent.amount), max(cost.delta, spent.delta))


def _settled_cost(scope: Scope, entry: Entry, spent: Steps) -> Amount:
    if not any(count for _, count in spent):
        return Amount()  # nothing was charged, so nothing was released
    if not scope.rule.refunds:
        return entry.cost
    return scope.rule.cost(
        Commitment(spent, scope.relation, scope.unit, entry.epsilon, entry.delta)
    )


def check_terms(scope: Scope, *, relation: str, unit: str) -> None:
    """Refuse a run that is measured under another relation or unit than its scope."""
    for name, wanted, given in (("relation", scope.relation, relation), ("unit", scope.unit, unit)):
        if given != wanted:
            expected = f"expected {wanted}, as scope {scope.name!r} is measured in, got {given}"
            raise PrivacyRefusal(f"budget.{name}: {expected}. Set {wanted}, or name another scope.")


def _check_data(connection: sa.Connection, scope: str, fingerprints: Sequence[str]) -> None:
    elsewhere = [name for name in scopes_of(connection, fingerprints) if name != scope]
    if elsewhere:
        raise PrivacyRefusal(
            f"budget.scope: expected {elsewhere[0]!r}, which this very data set is charged to, got {scope!r}. "
            "A copy under another name shares the budget: name that scope."
        )


def _names(connection: sa.Connection) -> list[str]:
    name = tables.scopes.c.name
    return list(connection.execute(sa.select(name).order_by(name)).scalars())


def _named_runs(runs: Sequence[Entry]) -> str:
    """Name the first runs of a scope and count the others."""
    named = ", ".join(f"{entry.run_id} ({entry.state}, {entry.run_dir})" for entry in runs[:_NAMED])
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    return f"{counted(len(runs))}: {named}{more}"


def _options(connection: sa.Connection, scope: str) -> dict[str, Any] | None:
    row = connection.execute(
        sa.select(tables.scopes.c.options).where(tables.scopes.c.name == scope)
    ).one_or_none()
    return None if row is None else dict(row.options)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
