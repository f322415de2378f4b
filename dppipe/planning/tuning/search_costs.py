"""What a search costs beside what could be done instead: for a plan, and for a picture."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.planning.earlier.runs import with_earlier
from dppipe.planning.tuning.tune_plan import SearchCosts
from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.accountants.rdp import Rdp

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.planning.earlier.runs import Earlier
    from dppipe.privacy.accountants.base import Accountant
    from dppipe.privacy.budget import Budget
    from dppipe.privacy.events.sequences import Steps

    Wrap = Callable[[Accountant], Accountant]


def search_costs(
    selection: DpEvent,
    runs: list[DpEvent],
    *,
    mean: float,
    accountant: Accountant,
    before: Steps,
    earlier: Earlier | None,
    budget: Budget,
) -> SearchCosts:
    """Return the costs of a search, of one run, and of releasing every run.

    Args:
        selection: The event of the search.
        runs: What one run of each distinct candidate releases.
        mean: How many runs the search makes on average.
        accountant: The spec's own accountant, which bounds one run and all runs.
        before: What is released once, before the search.
        earlier: The private runs that trained the starting weights.
        budget: The delta and the relation.
    """

    def cost(kind: Accountant, event: DpEvent, count: int = 1) -> float | None:
        try:
            whole = with_earlier(
                kind, earlier, before=before, failure=0.0, relation=budget.relation
            )
            composed = whole.compose([(event, count)], relation=budget.relation)
        except PrivacyRefusal:
            return None
        found = composed.epsilon(budget.delta)
        return found if composed.certified and math.isfinite(found) else None

    single = [(cost(accountant, run), run) for run in runs]
    known = [(found, run) for found, run in single if found is not None]
    one_run: float | None = None
    all_runs: float | None = None
    if known:
        one_run, dearest = max(known, key=lambda pair: pair[0])
        all_runs = cost(accountant, dearest, math.ceil(mean))
    return SearchCosts(
        one_run=one_run,
        by_curve=cost(Pld(), selection),
        by_rdp=cost(Rdp(), selection),
        all_runs=all_runs,
    )
