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

# The steps of a long schedule are large, and only their owner is ever asked for them.
_BRIEF = [column for column in entries.c if column.name not in ("id", "steps")]


def add_entry(connection: sa.Connection, entry: Entry, steps: Steps) -> Entry:
    """Add what a run now costs, and the steps that cost it."""
    values = vars(entry) | {"amount": entry.cost.amount, "amount_delta": entry.cost.delta}
    values["steps"] = [[event_to_data(event), count] for event, count in steps]
    connection.execute(
        sa.insert(entries).values({name: value for name, value in values.items() if name != "cost"})
    )
    return entry


def all_entries(connection: sa.Connection, scope: str) -> list[Entry]:
    """Give every entry that a scope ever had, the oldest first."""
    query = sa.select(*_BRIEF).where(entries.c.scope == scope).order_by(entries.c.id)
    return [_entry(row) for row in connection.execute(query).mappings()]


def last_entries(connection: sa.Connection, scope: str) -> dict[str, Entry]:
    """Give the entry that now stands for each run of a scope."""
    return {entry.run_id: entry for entry in all_entries(connection, scope)}


def find_entry(connection: sa.Connection, run_id: str) -> Entry | None:
    """Give the entry that now stands for a run, in whichever scope."""
    query = (
        sa.select(*_BRIEF).where(entries.c.run_id == run_id).order_by(entries.c.id.desc()).limit(1)
    )
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else _entry(row)


def steps_of(connection: sa.Connection, run_id: str) -> list[tuple[Any, int]]:
    """Give what a run did, or may do at most while it isn't settled."""
    query = (
        sa.select(entries.c.steps)
        .where(entries.c.run_id == run_id)
        .order_by(entries.c.id.desc())
        .limit(1)
    )
    return [
        (event_from_data(event), int(count))
        for event, count in connection.execute(query).scalar_one()
    ]


def scopes_of(connection: sa.Connection, fingerprints: Sequence[str]) -> list[str]:
    """Return the scopes that a data set was charged to, under any of its fingerprints."""
    known = entries.c.fingerprint.in_(fingerprints)
    query = sa.select(entries.c.scope).where(known).distinct()
    return list(connection.execute(query).scalars())


def _entry(row: Mapping[Any, Any]) -> Entry:
    values = dict(row)
    return Entry(cost=Amount(values.pop("amount"), values.pop("amount_delta")), **values)
