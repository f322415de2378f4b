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

from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.charges import STEP_FACTS
from dppipe.spec.kinds.registry import Registry

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.planning.plan import Plan
    from dppipe.planning.planned_release import PlannedRelease
    from dppipe.privacy.charges import Charge
    from dppipe.privacy.ledger_reading import LedgerRows


_Difference = tuple[str, object, object]
"""The name of a field, what the plan says, and what the row says."""


def row_faults(
    found: LedgerRows, *, plan: Plan, place: Path, covered: bool = False
) -> Iterator[str]:
    """Yield the first difference in each field between the rows and the plan, with its line.

    In a `covered` ledger every row names the row that has paid for it, and counts nothing.
    """
    named: set[str] = set()
    step = 0
    largest = _largest_batch(found)
    for row, charge in enumerate(found.charges, start=1):
        if row <= len(plan.releases):
            differences = _release_differences(charge, plan.releases[row - 1], plan=plan)
        elif isinstance(plan, StepPlan):
            differences = _step_differences(charge, plan=plan, before=step, largest=largest)
            step = charge.step
        else:
            differences = iter([("row", f"at most {len(plan.releases)} rows", row)])
        for name, expected, got in (*differences, *_cover_differences(charge, covered=covered)):
            if covered and name == "count":
                continue  # `_cover_differences` has compared it
            if name not in named:
                named.add(name)
                yield f"{place}:{row}: {name}: expected {expected}, as the plan says, got {got}."


def _cover_differences(charge: Charge, *, covered: bool) -> Iterator[_Difference]:
    """Yield whether a row is paid for by another ledger where it shouldn't be, or the reverse."""
    if covered and charge.count:
        yield "counted", 0, charge.count
    if covered != (charge.covered_by is not None):
        yield "covered_by", "a row's hash" if covered else "none", charge.covered_by


def _release_differences(
    charge: Charge, planned: PlannedRelease, *, plan: Plan
) -> Iterator[_Difference]:
    """Yield each field of a row that isn't as planned, for a release that isn't a step."""
    if charge.what != planned.what:
        yield "what", planned.what, charge.what
        return
    expected = {"relation": plan.relation, "unit": plan.unit, "count": planned.count}
    for name, value in expected.items():
        got = getattr(charge, name)
        if got != value:
            yield name, value, got
    if charge.event != planned.dp_event:
        yield "event", planned.dp_event, charge.event
    for name, fact in planned.facts.items():
        if charge.version > 1 and charge.facts.get(name) != fact:
            yield f"facts.{name}", fact, charge.facts.get(name)


def _largest_batch(found: LedgerRows) -> int | None:
    """Return the size that batches are cut to, by the first step: no plan holds it.

    So one row that states another size than the rest is found, and not a whole ledger that does.
    """
    for charge in found.charges:
        if charge.what == "step":
            size: int | None = getattr(charge.event, "truncated_batch_size", None)
            return size
    return None


def _step_differences(
    charge: Charge, *, plan: StepPlan, before: int, largest: int | None
) -> Iterator[_Difference]:
    """Yield each field of a row that isn't as planned: its name, the plan's value, its own."""
    if charge.what != "step":
        yield "what", "a step", charge.what
        return
    if not before < charge.step <= plan.steps:
        yield "step", f"one from {before + 1} to {plan.steps}", charge.step
        return
    expected = _expected(charge, plan=plan)
    for name, value in expected.items():
        got = charge.facts[name] if name in STEP_FACTS else getattr(charge, name)
        if got != value:
            yield name, value, got
    event = _event(
        expected["sampler"],
        expected["mechanism"],
        expected.get("noise_multiplier") or charge.noise_multiplier,
        expected["sample_rate"],
        size=plan.expected_batch_size,
        largest=largest,
    )
    if charge.event != event:
        yield "event", event, charge.event


def _expected(charge: Charge, *, plan: StepPlan) -> dict[str, Any]:
    """Return the fields that the plan fixes for a step; a filter admits other multipliers."""
    fixed: dict[str, Any] = {
        "relation": plan.relation,
        "unit": plan.unit,
        "sampler": plan.sampler,
        "mechanism": plan.mechanism,
        "sample_rate": plan.batch(charge.step).sample_rate,
        "count": plan.charges(charge.step),
    }
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
