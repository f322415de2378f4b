"""What a sweep would run and cost, for a person and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dppipe.cli.printing.wrapping import table
from dppipe.privacy.printing import shown, shown_delta

if TYPE_CHECKING:
    from dppipe.pipeline.sweep.costs import SweepCost
    from dppipe.pipeline.sweep.sweep_run import SweepRun


def plan_text(
    runs: Sequence[SweepRun],
    grid: Mapping[str, Sequence[Any]],
    cost: SweepCost,
    *,
    seeds: int,
    jobs: int,
    refusal: bool,
) -> str:
    """Lay out the plan of a sweep within 80 columns; `refusal`: say whether it may run, too."""
    settings = len(runs) // seeds
    counted = f"{settings} settings with {seeds} seeds each: {len(runs)} runs, {jobs} at a time"
    facts = {option: ", ".join(map(str, values)) for option, values in grid.items()}
    facts |= {"one run": _one_run(runs), **cost.lines(refusal=refusal)}
    return f"{runs[0].spec.name}: {counted}\n{table(facts)}"


def plan_data(
    runs: Sequence[SweepRun],
    grid: Mapping[str, Sequence[Any]],
    cost: SweepCost,
    *,
    seeds: int,
) -> dict[str, Any]:
    """Return the plan of a sweep as plain data."""
    listed = []
    for run in runs:
        plan = run.plan
        facts = {"steps": plan.steps, "epsilon": plan.epsilon, "delta": plan.delta}
        listed.append({"options": dict(run.options), "seed": run.spec.seed, **facts})
    return {"grid": dict(grid), "seeds": seeds, "runs": listed, "cost": cost.to_data()}


def _one_run(runs: Sequence[SweepRun]) -> str:
    """Say what a run costs: the least and the most where they differ."""
    epsilons = [run.plan.epsilon for run in runs if run.plan.epsilon is not None]
    if len(epsilons) < len(runs):
        return "some run is NOT PRIVATE" if epsilons else "NOT PRIVATE"
    low = shown(min(epsilons))
    high = shown(max(epsilons))
    span = high if low == high else f"{low} to {high}"
    delta = max(run.plan.delta or 0.0 for run in runs)
    return f"epsilon {span} at delta {shown_delta(delta)}"
