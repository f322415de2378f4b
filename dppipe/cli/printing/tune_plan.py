"""The plan of a private search, laid out for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dppipe.cli.printing.wrapping import table, wrapped
from dppipe.privacy.printing import shown, shown_delta
from dppipe.runs.statement.claims import guarantee_of_plan, units_of

if TYPE_CHECKING:
    from dppipe.planning.tuning.tune_plan import SearchPlan, TunePlan

_FIRST = (
    "Tune on public data first: settings that were found on public or made-up records cost "
    "nothing, and one private run with them has the whole budget. What follows is the price of a "
    "search on the private records."
)
_NAMES = {"truncated_negative_binomial": "truncated negative binomial", "poisson": "Poisson"}


def search_text(plan: TunePlan, *, scope: Mapping[str, str]) -> str:
    """Lay out the plan of a search: what it does, what it costs, and what else would."""
    records = "secret (add_remove)" if plan.records is None else str(plan.records)
    search = plan.search
    facts = {
        units_of(plan.unit): records,
        "learner": plan.learner,
        "candidates": _candidates(search),
        "runs": _runs(search),
        "time": f"{search.repetitions.mean:g} times that of one run on average, "
        f"{search.repetitions.most} times at most with 99 %",
        "noise multiplier": _noise(search),
        "score": _score(plan),
        "budget": f"epsilon {plan.budget_epsilon:g} at delta {shown_delta(plan.delta or 0.0)}, of "
        "everything together",
        "epsilon": f"{shown(plan.epsilon or 0.0)} for the whole search",
        "accountant": f"{plan.accountant}, "
        f"{'certified: a proven upper bound' if plan.certified else 'an ESTIMATE'}",
        "relation": f"{plan.relation}, unit: one {plan.unit}",
        **scope,
    }
    parts = [wrapped(_FIRST), f"{plan.name}: a private search", table(facts), _costs(plan)]
    parts.append("\n".join(wrapped(sentence) for sentence in guarantee_of_plan(plan)))
    return "\n\n".join(parts)


def _candidates(search: SearchPlan) -> str:
    options: dict[str, None] = {}
    for candidate in search.candidates:
        options |= dict.fromkeys(candidate.overrides)
    weights = {candidate.weight for candidate in search.candidates}
    drawn = "each as likely as any other" if len(weights) == 1 else "drawn by their weights"
    return f"{len(search.candidates)}, {drawn}; they differ in {', '.join(options) or 'nothing'}"


def _runs(search: SearchPlan) -> str:
    runs = search.repetitions
    kind = _NAMES[runs.kind] + ("" if runs.shape is None else f" of shape {runs.shape:g}")
    none = ", and maybe none" if runs.kind == "poisson" else ""
    return (
        f"{runs.mean:g} on average; {runs.median} or fewer half of the time, {runs.most} or fewer "
        f"with 99 %{none} ({kind}; the number is drawn in secret)"
    )


def _noise(search: SearchPlan) -> str:
    found = [candidate.noise_multiplier for candidate in search.candidates]
    least = min(found)
    most = max(found)
    return f"{least:.6g}" if least == most else f"{least:.6g} to {most:.6g}, by candidate"


def _score(plan: TunePlan) -> str:
    score = plan.search.score
    if score.noise_std is None:
        return f"{score.metric} on the public holdout, without noise"
    what = "the count of right answers" if score.metric == "accuracy" else "the sum of losses"
    return f"{score.metric} on the private holdout: {what}, noise {score.noise_std:g}"


def _costs(plan: TunePlan) -> str:
    """Compare the search with what could be done instead."""
    costs = plan.search.costs
    rows = {
        "one run with this noise": costs.one_run,
        "the search, by the curve of one run (pld)": costs.by_curve,
        "the search, by Renyi divergences (rdp)": costs.by_rdp,
        f"{plan.search.repetitions.mean:g} runs, every one released": costs.all_runs,
    }
    width = max(map(len, rows))
    lines = [f"epsilon at delta {shown_delta(plan.delta or 0.0)}"]
    for name, epsilon in rows.items():
        lines.append(f"  {name:<{width}}  {'no proof' if epsilon is None else shown(epsilon):>8}")
    return "\n".join(lines)
