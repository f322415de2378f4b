"""Scopes in the store: how their terms are written, and read back."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa

from dppipe.budgets import tables
from dppipe.budgets.scopes import Scope


def add_scope(connection: sa.Connection, scope: Scope) -> None:
    """Add a scope."""
    row = {"name": scope.name, "options": scope.model_dump(mode="json"), "at": now()}
    connection.execute(sa.insert(tables.scopes).values(row))


def delete_scope(connection: sa.Connection, name: str) -> None:
    """Delete a scope; the database refuses one that has entries."""
    connection.execute(sa.delete(tables.scopes).where(tables.scopes.c.name == name))


def find_scope(connection: sa.Connection, name: str) -> Scope | None:
    """Return a scope by its name; None where there is none."""
    query = sa.select(tables.scopes.c.options).where(tables.scopes.c.name == name)
    row = connection.execute(query).one_or_none()
    return None if row is None else Scope.from_data(dict(row.options))


def scope_names(connection: sa.Connection) -> list[str]:
    """Return the names of all scopes, in order."""
    name = tables.scopes.c.name
    return list(connection.execute(sa.select(name).order_by(name)).scalars())


def now() -> str:
    """Return the time as the store writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
