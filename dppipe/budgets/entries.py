"""Entries of the store: how what a run reserved and settled is written, and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from dppipe.budgets.scopes import Entry
from dppipe.budgets.tables import entries
from dppipe.privacy.events.plain import event_from_data, event_to_data
from dppipe.privacy.events.sequences import Steps
from dppipe.privacy.filters.filters import Amount

# The steps of a long schedule are large, and only their own run needs them.
_BRIEF = [column for column in entries.c if column.name not in ("id", "steps")]


def add_entry(connection: sa.Connection, entry: Entry, steps: Steps) -> Entry:
    """Add what a run now costs, and the steps that cost it."""
    values = dict(vars(entry))
    del values["cost"]
    values["amount"] = entry.cost.amount
    values["amount_delta"] = entry.cost.delta
    values["steps"] = [[event_to_data(event), count] for event, count in steps]
    connection.execute(sa.insert(entries).values(values))
    return entry


def all_entries(connection: sa.Connection, scope: str) -> list[Entry]:
    """Return every entry that a scope ever had, the oldest first."""
    query = sa.select(*_BRIEF).where(entries.c.scope == scope).order_by(entries.c.id)
    return [_entry(row) for row in connection.execute(query).mappings()]


def last_entries(connection: sa.Connection, scope: str) -> dict[str, Entry]:
    """Return the last entry of each run of a scope."""
    return {entry.run_id: entry for entry in all_entries(connection, scope)}


def find_entry(connection: sa.Connection, run_id: str) -> Entry | None:
    """Return the last entry of a run, in whichever scope."""
    query = _last(sa.select(*_BRIEF), run_id)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else _entry(row)


def steps_of(connection: sa.Connection, run_id: str) -> list[tuple[Any, int]]:
    """Return what a run did, or may do at most while it isn't settled."""
    query = _last(sa.select(entries.c.steps), run_id)
    steps = connection.execute(query).scalar_one()
    return [(event_from_data(event), int(count)) for event, count in steps]


def scopes_of(connection: sa.Connection, fingerprints: Sequence[str]) -> list[str]:
    """Return the scopes that a dataset was charged to, under any of its fingerprints."""
    known = entries.c.fingerprint.in_(fingerprints)
    query = sa.select(entries.c.scope).where(known).distinct()
    return list(connection.execute(query).scalars())


def has_fingerprints(connection: sa.Connection) -> bool:
    """Whether some entry has a fingerprint."""
    known = entries.c.fingerprint.is_not(None)
    return connection.execute(sa.select(entries.c.id).where(known).limit(1)).first() is not None


def _last(query: sa.Select[Any], run_id: str) -> sa.Select[Any]:
    """Restrict a query to the last entry of a run."""
    return query.where(entries.c.run_id == run_id).order_by(entries.c.id.desc()).limit(1)


def _entry(row: Mapping[Any, Any]) -> Entry:
    values = dict(row)
    return Entry(cost=Amount(values.pop("amount"), values.pop("amount_delta")), **values)
