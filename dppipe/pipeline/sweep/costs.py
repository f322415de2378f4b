"""What a whole sweep costs, and whether it may run.

A sweep shows the scores of every run, so all of them are released: their costs add up. It runs on
data that needs no protection, or within a shared budget that all its runs fit in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dppipe.budgets.commitments import commit
from dppipe.budgets.outlook import look_ahead
from dppipe.budgets.scopes import percent_left, percent_used, total
from dppipe.errors import BudgetExhausted, PrivacyRefusal
from dppipe.planning.privacy_plan import run_parts
from dppipe.privacy.printing import shown, shown_delta

if TYPE_CHECKING:
    from dppipe.budgets.scopes import Status
    from dppipe.pipeline.sweep.sweep_run import SweepRun
    from dppipe.privacy.filters.filters import Amount

_WAYS_OUT = (
    "Sweep on public or made-up records with `data.public: true`, name a shared budget that pays "
    "for all runs (`budget.scope`, see `dppipe budget create`), or search privately at one stated "
    "cost with `dppipe tune`."
)


@dataclass(frozen=True)
class SweepCost:
    """What all runs of a sweep cost together."""

    protected: bool
    """Whether some record needs protection."""
    epsilon: float | None
    """A proven bound for all runs together; None where there is none."""
    delta: float | None
    how: str
    """How the bound adds the runs up."""
    scope: str | None = None
    share: float | None = None
    """The part of the shared budget that runs which are still to start take."""
    left: float | None = None
    """The part of the shared budget that is left before them."""
    refusal: str | None = None
    """Why the sweep may not run; None if it may."""
    exhausted: bool = False
    """Whether it is refused for want of room in the shared budget."""

    def require(self) -> None:
        """Refuse a sweep that may not run."""
        if self.refusal is not None:
            raise (BudgetExhausted if self.exhausted else PrivacyRefusal)(self.refusal)

    def to_data(self) -> dict[str, Any]:
        """Return plain data."""
        from dataclasses import asdict

        return asdict(self)

    def lines(self, *, refusal: bool) -> dict[str, str]:
        """Return names and values for a person; a refusal is among them if asked for."""
        if not self.protected:
            return {"privacy": "data.public: no record needs protection, so nothing is spent"}
        lines = {"all runs": "no epsilon: some run isn't private"}
        if self.epsilon is not None and self.delta is not None:
            bound = f"epsilon {shown(self.epsilon)} at delta {shown_delta(self.delta)}"
            lines["all runs"] = f"{bound} for all of them together, {self.how}"
        if self.scope is not None and self.share is not None and self.left is not None:
            needs = f"they take {percent_used(self.share)} of {self.scope}"
            lines["shared budget"] = f"{needs}, of which {percent_left(self.left)} is left"
        if refusal and self.refusal is not None:
            lines["may it run"] = f"NO. {self.refusal}"
        return lines


def sweep_cost(runs: Sequence[SweepRun], *, to_start: Sequence[SweepRun]) -> SweepCost:
    """Return what a sweep costs, and why it may not run if it may not.

    Args:
        runs: All its runs.
        to_start: Those that haven't reserved in their shared budget yet.
    """
    if all(run.spec.data.public and run.plan.scope is None for run in runs):
        return SweepCost(protected=False, epsilon=None, delta=None, how="")
    epsilon, delta, how = _together(runs)
    open_runs = [run for run in runs if not run.spec.data.public and run.plan.scope is None]
    if open_runs:
        refusal = (
            "data: expected public records, or a shared budget, as every run of a sweep is "
            f"released; got private ones without. {_WAYS_OUT}"
        )
        return SweepCost(protected=True, epsilon=epsilon, delta=delta, how=how, refusal=refusal)
    return _scoped(to_start, SweepCost(protected=True, epsilon=epsilon, delta=delta, how=how))


def _scoped(runs: Sequence[SweepRun], cost: SweepCost) -> SweepCost:
    """Return the cost of a sweep within a shared budget, as it is now."""
    from dataclasses import replace

    status: Status | None = None
    costs: list[Amount] = []
    known: dict[int, Amount] = {}
    for run in runs:
        if run.plan.scope is None:
            continue
        if id(run.plan) not in known:
            outlook = look_ahead(run.plan, run_parts(run.spec))
            status = outlook.status
            if outlook.cost is None or outlook.problem is not None:
                return replace(cost, refusal=outlook.problem, exhausted=True)
            known[id(run.plan)] = outlook.cost
        costs.append(known[id(run.plan)])
    if status is None:
        return cost
    whole = total(costs)
    share = status.scope.share(whole)
    found = replace(cost, scope=status.scope.name, share=share, left=status.left)
    if status.fits(whole):
        return found
    fitting = _how_many_fit(status, costs)
    refusal = (
        f"budget.scope: {status.scope.name!r} has {percent_left(status.left)} of its room left, "
        f"and the {len(costs)} runs need {percent_used(share)}. The first {fitting} fit: leave "
        "values or seeds out, or lower budget.epsilon."
    )
    return replace(found, refusal=refusal, exhausted=True)


def _how_many_fit(status: Status, costs: Sequence[Amount]) -> int:
    for number in range(len(costs)):
        if not status.fits(total(costs[: number + 1])):
            return number
    return len(costs)


def _together(runs: Sequence[SweepRun]) -> tuple[float | None, float | None, str]:
    """Return a proven epsilon and delta for all runs: the smaller of two bounds.

    Guarantee: the settings are fixed before the first run, so the runs compose without adaptivity.
    Composed curves are used only where all that a run charges is in its events; else epsilons and
    deltas are added.
    """
    private = [run for run in runs if not run.spec.data.public]
    plans = [run.plan for run in private]
    terms = {(plan.relation, plan.unit) for plan in plans}
    if len(terms) != 1 or not all(plan.private and plan.certified for plan in plans):
        return None, None, ""
    added = math.fsum(plan.epsilon or 0.0 for plan in plans)
    deltas = math.fsum(plan.delta or 0.0 for plan in plans)
    composed = _composed(private)
    if composed is not None and composed <= added:
        return composed, max(plan.delta or 0.0 for plan in plans), "composed by pld"
    return added, deltas, "added up"


def _composed(runs: Sequence[SweepRun]) -> float | None:
    """Return the epsilon of all runs by one composed curve; None where that isn't proven."""
    from dppipe.privacy.accountants.pld import Pld

    steps = []
    relation = runs[0].plan.relation
    for run in runs:
        plan = run.plan
        if plan.failure_delta or plan.earlier is not None or plan.schedule == "filter":
            return None
        try:
            steps += list(commit(plan, run_parts(run.spec)).steps)
        except PrivacyRefusal:
            return None
    if relation is None:
        return None
    largest = max(run.plan.delta or 0.0 for run in runs)
    try:
        composed = Pld().compose(steps, relation=relation)
    except PrivacyRefusal:
        return None
    found = composed.epsilon(largest)
    return found if composed.certified and math.isfinite(found) else None
