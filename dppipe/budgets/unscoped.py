"""Runs without a scope on records that a scope covers: the shared budget misses their cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.budgets.fingerprints import fingerprints
from dppipe.budgets.places import may_hold_store
from dppipe.component import Component
from dppipe.errors import DppipeError, NoStore, UsageError
from dppipe.privacy.printing import shown, shown_delta

if TYPE_CHECKING:
    from dppipe.budgets.scopes import Status


def scope_of_records(data: Component, *, place: str | Path | None = None) -> Status | None:
    """Return the scope that these records were charged to; None where there is none.

    The data files are read only if some run of the store has left a fingerprint.
    """
    if not may_hold_store(place):
        return None
    from dppipe.budgets.store import Store  # its database library is slow to load

    try:
        store = Store(place, make=False)
    except NoStore:
        return None
    if not store.has_fingerprints():
        return None
    try:
        marks = fingerprints(store, data)
    except UsageError:  # a missing file: the run itself says so, with its place in the spec
        return None
    name = store.scope_of(*marks)
    return None if name is None else store.status(name)


def unscoped_warning(
    data: Component,
    *,
    private: bool,
    place: str | Path | None = None,
) -> str | None:
    """Return a warning if a scope covers a run's records and the run doesn't name it; else None.

    Args:
        data: The run's data.
        private: Whether the run has a budget of its own.
        place: The store; by default the user's.
    """
    try:
        status = scope_of_records(data, place=place)
    except DppipeError as error:
        return f"warning: it isn't known whether these records stand in a shared budget: {error}"
    if status is None:
        return None
    terms = status.scope
    spent = f"epsilon {shown(status.epsilon_spent)} of {terms.epsilon:g}"
    line = f"`scope: {terms.name}` to the spec's budget, or `--set budget.scope={terms.name}`"
    if not private:
        line = f"a budget with `scope: {terms.name}` to the spec"
    return (
        f"warning: these records stand in the shared budget {terms.name!r}, which has spent "
        f"{spent} at delta {shown_delta(terms.delta)}. This run isn't charged to it: its cost "
        f"comes on top. To charge it, add {line}."
    )
