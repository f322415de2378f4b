"""What a run's charges cost by each accountant and leave to an attacker, as lines in TensorBoard.

They are computed when the curves are looked at, from the ledger's rows alone, so that training
doesn't wait for them. `curves/` in the run directory keeps them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.errors import DppipeError
from dppipe.planning.earlier.runs import with_earlier
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.charges import charged_steps
from dppipe.privacy.events.sequences import between, merge
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.privacy.tradeoff.limits_of_cost import limits_of_cost
from dppipe.runs.directory import RunDirectory
from dppipe.runs.files import read_plan
from dppipe.runs.showing.dashboard import FOLDER, shorten_forecast, write_line
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import load_built_in

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.planning.plan import Plan
    from dppipe.privacy.accountants.base import Accountant
    from dppipe.privacy.events.sequences import Steps

ACCOUNTANTS = ("basic", "advanced", "zcdp", "rdp", "pld")
_POINTS = 20
_FALSE_POSITIVE_RATE = 0.01
_MOST_SHOWN = 5.0
"""Lines end where a cost is more than this times the budget, so that the others can be seen."""


def write_cost_lines(run_dir: Path) -> bool:
    """Write the lines of a private run that takes steps, unless they are there for all its rows.

    Returns:
        Whether they are there now; False for a run that can't have them.
    """
    run = RunDirectory(run_dir)
    seen = run.path / FOLDER / "costs.json"
    try:
        found = read_ledger(run.ledger, plan=run.plan.read_bytes())
        plan = read_plan(run)
        if not found.charges or not isinstance(plan, StepPlan) or plan.schedule == "filter":
            return False
        if seen.exists() and json.loads(seen.read_bytes()).get("rows") == found.rows:
            return True
        steps = charged_steps(found.charges)
        taken = sum(count for _, count in steps)
        at = sorted({-(-taken * k // _POINTS) for k in range(1, _POINTS + 1)})
        rows = _last_steps(found.charges, at)
        shorten_forecast(run.path, plan, taken=found.charges[-1].step)
        _write(run.path / FOLDER, plan, steps, at, rows)
        seen.write_text(json.dumps({"rows": found.rows}) + "\n")
    except (OSError, ValueError, DppipeError):
        return False  # curves can be looked at without these lines
    return True


def _last_steps(charges: Sequence[object], at: Sequence[int]) -> list[int]:
    """Return the ledger's step at which so many charges are paid."""
    paid = 0
    steps: list[int] = []
    for place, charge in enumerate(charges, start=1):
        paid += getattr(charge, "count", 0)
        while len(steps) < len(at) and paid >= at[len(steps)]:
            steps.append(place)
    return steps


def _write(
    folder: Path, plan: Plan, steps: Steps, at: Sequence[int], places: Sequence[int]
) -> None:
    if plan.delta is None or plan.relation is None or plan.budget_epsilon is None:
        return
    for kind in ACCOUNTANTS:
        shutil.rmtree(folder / f"cost_{kind}", ignore_errors=True)
        try:
            accountant = _accountant(kind, plan)
            counted = [(_unsampled(event), count) for event, count in steps]
            charged = counted if kind == "zcdp" else steps
            epsilons = accountant.curve(charged, at, delta=plan.delta, relation=plan.relation)
        except DppipeError:
            continue  # it has no proof for these steps
        most = _MOST_SHOWN * plan.budget_epsilon
        points = [pair for pair in zip(places, epsilons, strict=True) if pair[1] <= most]
        if points:
            write_line(folder / f"cost_{kind}", "cost/epsilon", points)
    shutil.rmtree(folder / "attacker", ignore_errors=True)
    limits = _recognised(_accountant(plan.accountant or "pld", plan), plan, steps, at[1::2])
    write_line(
        folder / "attacker",
        "attacker/tpr_at_fpr_1_percent",
        [(0, _FALSE_POSITIVE_RATE), *zip(places[1::2], limits, strict=True)],
    )


def _unsampled(event: DpEvent) -> DpEvent:
    """Return a Poisson-sampled event as if it drew every record, which never costs less.

    zCDP has no bound that profits from sampling.
    """
    import dp_accounting

    return event.event if isinstance(event, dp_accounting.PoissonSampledDpEvent) else event


def _recognised(accountant: Accountant, plan: Plan, steps: Steps, at: Sequence[int]) -> list[float]:
    """Return how many records any attacker recognises at most, after each count of charges."""
    if plan.delta is None or plan.relation is None:
        return []
    stages = []
    low = 0
    for high in at:
        stages.append(merge(between(steps, low, high)))
        low = high
    rates = []
    for cost in accountant.compositions(stages, relation=plan.relation):
        limits = limits_of_cost(cost, delta=plan.delta)
        rates.append(limits.true_positive_rate(_FALSE_POSITIVE_RATE))
    return rates


def _accountant(kind: str, plan: Plan) -> Accountant:
    made = load_built_in(FAMILIES["accountant"], kind)()
    if plan.relation is None:
        raise DppipeError("plan.relation: expected one, got none.")
    return with_earlier(
        made,  # type: ignore[arg-type]
        plan.earlier,
        before=(),
        failure=plan.failure_delta,
        relation=plan.relation,
    )
