"""A row of the ledger that a crash has cut off: which release it has begun, and how often it pays.

A plan's releases come in order, before its steps. So the number of whole rows says which release a
torn row was for. Of a step it says less: an epoch may have begun with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.planning.planned_release import PlannedRelease


def torn_release(plan: Plan, rows: int) -> PlannedRelease | None:
    """Return the release of a torn row after so many whole ones; None if it was for a step."""
    return plan.releases[rows] if rows < len(plan.releases) else None


def torn_count(plan: Plan, rows: int) -> int:
    """Return how many charges a torn row after so many whole ones counts for.

    Guarantee: they are at least those that the whole row would have stated.
    """
    release = torn_release(plan, rows)
    return 1 if release is None else release.count
