"""A plan without steps, laid out for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dppipe.cli.printing.attacks import attack_blocks
from dppipe.cli.printing.wrapping import fill, table, wrapped
from dppipe.privacy.printing import shown, shown_delta
from dppipe.runs.statement.claims import guarantee_of_plan, units_of
from dppipe.runs.statement.other_releases import planned_phrase

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan


def releases_line(plan: Plan) -> str:
    """Return what `dppipe run` prints before a learner without steps starts."""
    count = len(plan.releases)
    planned = f"{plan.name}: {plan.learner}, {count} release{'s' if count > 1 else ''}"
    if not plan.private:
        return f"{planned}, NOT PRIVATE"
    budget = f"epsilon {plan.budget_epsilon:g} at delta {shown_delta(plan.delta or 0.0)}"
    cost = f"{shown(plan.epsilon or 0.0)} by {plan.accountant}"
    return f"{planned}\nbudget: {budget}; planned: {cost}"


def releases_text(plan: Plan, *, scope: Mapping[str, str]) -> str:
    """Lay out a plan without steps: its releases, and the epsilon after each of them."""
    records = "secret (add_remove)" if plan.records is None else str(plan.records)
    facts = {units_of(plan.unit): records, "learner": plan.learner}
    if plan.private:
        facts |= {
            "budget": f"epsilon {plan.budget_epsilon:g} at delta {shown_delta(plan.delta or 0.0)}",
            "epsilon": f"{shown(plan.epsilon or 0.0)} after the last release",
            "accountant": f"{plan.accountant}, "
            f"{'certified: a proven upper bound' if plan.certified else 'an ESTIMATE'}",
            "relation": f"{plan.relation}, unit: one {plan.unit}",
            **_earlier(plan),
            **scope,
        }
    parts = [plan.name, table(facts), "\n".join(_releases(plan)), *attack_blocks(plan)]
    parts.append("\n".join(wrapped(sentence) for sentence in guarantee_of_plan(plan)))
    return "\n\n".join(parts)


def _earlier(plan: Plan) -> dict[str, str]:
    """Return which private runs have trained weights that the run takes, and how they count."""
    if plan.earlier is None:
        return {}
    counted = "added up"
    if plan.earlier.records == "disjoint":
        counted = "disjoint records: the larger cost counts"
    return {"weights of": f"{plan.earlier.names} ({plan.earlier.charged} charges); {counted}"}


def _releases(plan: Plan) -> list[str]:
    lines = ["releases, and the epsilon spent after each" if plan.private else "releases"]
    for number, release in enumerate(plan.releases, start=1):
        spent = f"  {shown(plan.epsilon_after(number)):>8}" if plan.private else ""
        first = f"  {number:>3}{spent}  "
        lines.append(fill(planned_phrase(release), first=first, rest=" " * len(first)))
    return lines
