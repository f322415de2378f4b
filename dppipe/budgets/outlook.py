"""Whether a planned run fits in its scope, before anything is reserved.

Nothing is written or promised: other runs may take the room until this run reserves.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dppipe.budgets.advice import with_advice
from dppipe.budgets.commitments import commit
from dppipe.budgets.fitting import refusal
from dppipe.budgets.granting import check_terms
from dppipe.budgets.scopes import Status, counted, percent_left, percent_used
from dppipe.budgets.store import Store
from dppipe.errors import NoStore, UsageError
from dppipe.planning.parts import PrivateParts
from dppipe.planning.plan import Plan
from dppipe.planning.release_plan import LearnerParts
from dppipe.privacy.filters.filters import Amount
from dppipe.privacy.printing import shown, shown_delta
from dppipe.text_layout import shown_command

_ESTIMATE = "The accountant only estimates: `dppipe run` refuses it."


@dataclass(frozen=True)
class Outlook:
    """A scope as it is now, and a run that will be charged to it."""

    place: str
    status: Status
    cost: Amount | None
    """The most that the run may cost; None where that isn't known."""
    problem: str | None = None
    """Why the run doesn't fit and what would, or why its cost isn't known; None where it fits."""

    @property
    def fits(self) -> bool | None:
        """Whether the run fits; None where that isn't known."""
        return None if self.cost is None else self.status.fits(self.cost)

    def to_data(self) -> dict[str, Any]:
        """Return plain data."""
        run: dict[str, Any] = {"cost": None, "share": None}
        if self.cost is not None:
            run = {"cost": asdict(self.cost), "share": self.status.scope.share(self.cost)}
        return scope_facts(self.status) | {
            "store": self.place,
            "run": run,
            "fits": self.fits,
            "problem": self.problem,
        }

    def lines(self) -> dict[str, str]:
        """Return names and values for a person."""
        status = self.status
        if self.cost is None:
            fits = f"not known. {self.problem}"
        elif self.problem is not None:
            fits = f"NO. {self.problem.removeprefix('budget.scope: ')}"
        else:
            needs = percent_used(status.scope.share(self.cost))
            fits = f"yes, it takes {needs} of the room, and {percent_left(status.left)} is left"
        return scope_lines(status) | {"fits": fits}


def look_ahead(plan: Plan, parts: PrivateParts | LearnerParts) -> Outlook:
    """Return whether a run fits in the scope that its budget names.

    A scope that doesn't exist is a UsageError; one with another relation or unit, a PrivacyRefusal.
    """
    name = plan.scope or ""
    store = open_for_scope(name, place=_store_of(parts))
    status = store.status(name, key="budget.scope")
    commitment = commit(plan, parts)
    check_terms(status.scope, relation=commitment.relation, unit=commitment.unit)
    if not plan.certified:
        return Outlook(store.place, status, None, _ESTIMATE)
    cost = status.scope.rule.cost(commitment)
    problem = None
    if not status.fits(cost):
        problem = with_advice(refusal(status, commitment), status, plan, parts)
    return Outlook(store.place, status, cost, problem)


def look_at_terms(name: str, parts: PrivateParts | LearnerParts) -> Outlook:
    """Return the scope of a run without a plan; refuse another relation or unit."""
    store = open_for_scope(name, place=_store_of(parts))
    status = store.status(name, key="budget.scope")
    if parts.budget is not None:
        check_terms(status.scope, relation=parts.budget.relation, unit=parts.unit)
    return Outlook(store.place, status, None)


def _store_of(parts: PrivateParts | LearnerParts) -> str | None:
    """Return the store that a run's own budget names."""
    return None if parts.budget is None else parts.budget.store


def open_for_scope(name: str, *, place: str | Path | None = None) -> Store:
    """Open the store that should have a spec's scope, without creating one."""
    try:
        return Store(place, make=False)
    except NoStore as error:
        where = str(error).partition(": no store")[0]
        command = f"{shown_command('budget', 'create', name)} --epsilon E --like SPEC"
        raise UsageError(
            f"budget.scope: no scope named {name!r}: {where} contains no store. "
            f"Make the scope with `{command}`, "
            "or set budget.store or DPPIPE_STORE to the store that has it."
        ) from error


def scope_facts(status: Status) -> dict[str, Any]:
    """Return a scope's terms and use as plain data: what a summary and a statement need."""
    terms = status.scope
    return {
        "name": terms.name,
        "epsilon": terms.epsilon,
        "delta": terms.delta,
        "relation": terms.relation,
        "unit": terms.unit,
        "filter": terms.filter["kind"],
        "epsilon_spent": status.epsilon_spent,
        "share_used": status.share,
        "runs": len(status.runs),
    }


def scope_lines(status: Status) -> dict[str, str]:
    """Return a scope's terms and use for a person."""
    terms = status.scope
    all_runs = f"epsilon {terms.epsilon:g} at delta {shown_delta(terms.delta)} for all runs"
    spent = f"epsilon {shown(status.epsilon_spent)} by {counted(len(status.runs))}"
    return {
        "shared budget": f"{terms.name}: {all_runs}, {terms.relation}, one {terms.unit}",
        "spent": f"{spent}; {percent_left(status.left)} of the room is left",
    }
