"""Releases before a learner's own: what the data asks for, such as private statistics.

They are planned, charged and composed like all others, and come first in the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.printing import shown

if TYPE_CHECKING:
    from dppipe.privacy.accountants.base import Accountant
    from dppipe.privacy.budget import Budget
    from dppipe.privacy.release import Prelude, Release


def first_releases(preludes: Sequence[Prelude], budget: Budget | None) -> tuple[Release, ...]:
    """Return the releases that the data asks for, in order."""
    return tuple(prelude.release(budget) for prelude in preludes)


def refuse_preludes(releases: Sequence[Release], accountant: Accountant, budget: Budget) -> None:
    """Refuse first releases that use up the budget: no noise on what follows makes up for it."""
    if not releases:
        return
    events = [(release.event, release.count) for release in releases]
    alone = accountant.compose(events, relation=budget.relation).epsilon(budget.delta)
    if alone < budget.epsilon:
        return
    first = releases[0]
    raise PrivacyRefusal(
        f"{first.place}.noise_multiplier: expected {first.what} that cost less than epsilon "
        f"{budget.epsilon:g}, got {first.facts['noise_multiplier']:g}, at which they cost "
        f"{shown(alone)} before the first {'step' if len(releases) == 1 else 'step, all together'}"
        ". Raise it."
    )
