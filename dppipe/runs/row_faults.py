"""Compare a ledger's rows with the run's plan: each row charges what the plan holds for its step.

The chain of hashes shows that rows weren't changed after they were written. These comparisons show
that the right rows were written: a step with less noise, another sampler, relation or unit, or an
event that costs less than the step did, is named with its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.spec.kinds.registry import Registry

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.planning.plan import Plan
    from dppipe.privacy.charges import Charge, LedgerRows


def row_faults(found: LedgerRows, *, plan: Plan, place: Path) -> Iterator[str]:
    """Yield the first difference in each field between the rows and the plan, with its line."""
    named: set[str] = set()
    before = -1 if plan.scaling_noise_multiplier is not None else 0
    for row, charge in enumerate(found.charges, start=1):
        for name, expected, got in _differences(charge, plan=plan, before=before):
            if name not in named:
                named.add(name)
                yield f"{place}:{row}: {name}: expected {expected}, as the plan says, got {got}."
        before = charge.step


def _differences(
    charge: Charge, *, plan: Plan, before: int
) -> Iterator[tuple[str, object, object]]:
    """Yield each field of a row that isn't as planned: its name, the plan's value, its own."""
    if before == -1 and charge.step != 0:
        yield "step", "0 for the statistics that are released first", charge.step
        return
    if not before < charge.step <= plan.steps:
        yield "step", f"one from {before + 1} to {plan.steps}", charge.step
        return
    expected = _expected(charge, plan=plan)
    for name, value in expected.items():
        got = getattr(charge, name)
        if got != value:
            yield name, value, got
    event = _event(
        expected["sampler"],
        expected["mechanism"],
        expected.get("noise_multiplier") or charge.noise_multiplier,
        expected["sample_rate"],
        size=plan.expected_batch_size,
        largest=getattr(charge.event, "truncated_batch_size", None),
    )
    if charge.event != event:
        yield "event", event, charge.event


def _expected(charge: Charge, *, plan: Plan) -> dict[str, Any]:
    """Return the fields that the plan fixes for a row; a filter admits other noise multipliers."""
    fixed: dict[str, Any] = {"relation": plan.relation, "unit": plan.unit}
    if charge.step == 0:
        statistics = {
            "sampler": "full_batch",
            "mechanism": "gaussian",
            "sample_rate": 1.0,
            "count": 1,
        }
        return fixed | statistics | {"noise_multiplier": plan.scaling_noise_multiplier}
    fixed["sampler"] = plan.sampler
    fixed["mechanism"] = plan.mechanism
    fixed["sample_rate"] = plan.batch(charge.step).sample_rate
    fixed["count"] = plan.charges(charge.step)
    if plan.schedule == "committed":
        fixed["noise_multiplier"] = plan.noise_multiplier(charge.step)
    return fixed


@lru_cache
def _event(
    sampler: str, mechanism: str, noise_multiplier: float, rate: float, *, size: float, largest: Any
) -> DpEvent:
    """Return the event of a step, made by the sampler's own class from the plan's numbers."""
    import dp_accounting

    made = dp_accounting.LaplaceDpEvent if mechanism == "laplace" else dp_accounting.GaussianDpEvent
    family: Any = Registry().load("sampler", sampler)
    drawn = family.model_construct(expected_batch_size=size, max_batch_size=largest)
    event: DpEvent = drawn.event(made(noise_multiplier), rate=rate)
    return event
