"""Noise schedules: finite and positive from the first step to the last, for runs of every length,
and plannable.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from dppipe.noise.base import NoiseSchedule
from dppipe.plugin_kit.checks.table import Fault, Remark, Trial, check_each, check_kind

LENGTHS = (1, 2, 3, 100, 1001)
EVERY_LENGTH = (*range(1, 60), *LENGTHS, 3000, 100_000, 0)
HISTORIES: tuple[tuple[float, ...], ...] = (
    (),
    (1.0,),
    (0.0,) * 20,
    (-1.0, -2.0),
    tuple(1 / (t + 1) for t in range(300)),
    tuple(float(t) for t in range(300)),
    (1.0,) * 500,
    (math.inf, math.nan, -math.inf, 1.0) * 5,
)
"""Released values: none yet, one, zeros, falling, rising, flat, and what noise should never give
but could.
"""


def random_histories() -> list[list[float]]:
    """Return a hundred lists of released values of any size, the same each time."""
    generator = random.Random(0)
    found = []
    for length in range(100):
        size = 10.0 ** generator.uniform(-6, 6)
        found.append([generator.uniform(-size, size) for _ in range(length)])
    return found


def exercise(schedule: NoiseSchedule) -> Any:
    """Ask for the noise of several runs; equal questions must get equal answers."""
    if schedule.adaptive:
        return [schedule.next_multiplier(list(history)) for history in HISTORIES]
    return [schedule.relative(steps) for steps in LENGTHS]


@check_each("noise")
def every_progress(schedule: NoiseSchedule) -> Remark:
    """The noise is finite and > 0 at every progress from 0 to 1."""
    if type(schedule).multiplier is NoiseSchedule.multiplier:
        if type(schedule).relative is NoiseSchedule.relative and not schedule.adaptive:
            raise Fault("expected multiplier(progress) or relative(steps), got neither. Write one.")
        return "no multiplier(progress): relative(steps) or next_multiplier(history) says it"
    for progress in (0.0, 1e-9, *(k / 200 for k in range(201)), 1 - 1e-9, 1.0):
        _require_size(schedule.multiplier(progress), f"at progress {progress:g}")
    return None


@check_each("noise")
def every_length(schedule: NoiseSchedule) -> Remark:
    """Runs of 1, 2, 3 and more steps, up to 100,000, have a finite size > 0 at each."""
    if schedule.adaptive:
        return "adaptive: next_multiplier(history) says it"
    widest = 1.0
    for steps in EVERY_LENGTH:
        sizes = schedule.relative(steps)
        if len(sizes) != steps:
            raise Fault(
                f"expected {steps} numbers for {steps} steps, got {len(sizes)}. Fix relative()."
            )
        for step, size in enumerate(sizes):
            _require_size(size, f"at step {step} of {steps}")
        if sizes:
            widest = max(widest, max(sizes) / min(sizes))
    return (
        f"the noise moves by a factor of {widest:g}: its smallest steps cost nearly all of "
        "the budget"
        if widest > 20
        else None
    )


@check_each("noise")
def first_step(schedule: NoiseSchedule) -> Remark:
    """A run of one step has the noise of the first step of a longer one."""
    if schedule.adaptive:
        return "adaptive: next_multiplier(history) says it"
    alone = schedule.relative(1)[0]
    if not math.isclose(alone, schedule.relative(2)[0], rel_tol=1e-6):
        raise Fault(f"expected {schedule.relative(2)[0]:g} in a run of one step, got {alone:g}.")
    if not math.isclose(schedule.relative(100)[0], 1.0, rel_tol=1e-6):
        return f"the first step has {schedule.relative(100)[0]:g} times noise_multiplier"
    return None


@check_each("noise")
def fresh_copy(schedule: NoiseSchedule) -> Remark:
    """A fresh copy with equal options has the same noise."""
    if schedule.adaptive:
        return "adaptive: next_multiplier(history) says it"
    fresh = type(schedule).model_validate(schedule.model_dump())
    if fresh.relative(57) != schedule.relative(57):
        raise Fault("expected the same noise from equal options, got another. Use no state.")
    return None


@check_each("noise")
def event_tells(schedule: NoiseSchedule) -> Remark:
    """The event that is charged names the multiplier; noise that protects nothing is refused."""
    for multiplier in (0.3, 1.0, 7.0):
        named = getattr(schedule.event(multiplier), "noise_multiplier", None)
        if type(named) is not float or named != multiplier:
            raise Fault(
                f"expected an event of multiplier {multiplier:g}, got {named}. Leave event() out."
            )
    for nothing in (0.0, -1.0, math.nan, math.inf):
        try:
            schedule.event(nothing)
        except ValueError:
            continue
        raise Fault(
            f"expected no event for a noise multiplier of {nothing:g}, got one. Leave event() out."
        )
    return None


@check_each("noise")
def constant_is_constant(schedule: NoiseSchedule) -> Remark:
    """It says that it is constant only where it is."""
    if not schedule.constant:
        return None
    sizes = {schedule.multiplier(k / 10) for k in range(11)} | set(schedule.relative(50))
    if len(sizes) > 1:
        raise Fault(
            "expected one multiplier, as `constant = True` says, got several. Leave `constant` out."
        )
    return None


@check_each("noise")
def every_history(schedule: NoiseSchedule) -> Remark:
    """If it adapts, any released values give a finite size > 0."""
    overrides = type(schedule).next_multiplier is not NoiseSchedule.next_multiplier
    if schedule.adaptive != overrides:
        missing = (
            "next_multiplier(history)" if schedule.adaptive else "adaptive: ClassVar[bool] = True"
        )
        raise Fault(
            "expected next_multiplier and `adaptive = True` together, got one of them. Add "
            f"{missing}."
        )
    if not schedule.adaptive:
        return "not adaptive"
    for history in (*HISTORIES, *random_histories()):
        given = list(history)
        _require_size(schedule.next_multiplier(given), f"after {_show(history)}")
        if repr(given) != repr(list(history)):
            raise Fault("expected the history as it was, got another. Work on a copy.")
    return "it runs only with an accountant that has a filter"


@check_kind("noise")
def plan_lands_on_budget(trial: Trial) -> Remark:
    """A plan with it lands on its budget."""
    from dppipe.clipping.flat import Flat
    from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
    from dppipe.privacy.accountants.rdp import Rdp
    from dppipe.privacy.budget import Budget
    from dppipe.sampling.full_batch import FullBatch
    from dppipe.sampling.poisson import Poisson

    schedule = trial.made[0]
    if (
        not isinstance(schedule, NoiseSchedule)
        or schedule.adaptive
        or schedule.noise_multiplier != "auto"
    ):
        return "nothing to calibrate"
    budget = Budget(epsilon=2.0, delta=1e-5)
    # No proof of correlated noise covers steps that are drawn anew.
    sampler = Poisson(sample_rate=0.1) if schedule.block == 1 else FullBatch()
    parts = PrivateParts(sampler, Flat(), schedule, Rdp(), budget)
    plan = plan_privacy(parts, name="check", records=1000, steps=20)
    if plan.epsilon is None or not 0.98 * budget.epsilon <= plan.epsilon <= budget.epsilon:
        raise Fault(f"expected epsilon {budget.epsilon:g} from 20 steps, got {plan.epsilon}.")
    return None


def _require_size(size: Any, where: str) -> None:
    if isinstance(size, bool) or not isinstance(size, (int, float)):
        raise Fault(f"expected a plain number {where}, got {type(size).__name__}. Return a float.")
    if not (math.isfinite(size) and size > 0):
        raise Fault(
            f"expected a finite number > 0 {where}, got {size:g}. Noise of no size, or "
            "none, protects nobody."
        )


def _show(history: Sequence[float]) -> str:
    values = ", ".join(f"{value:g}" for value in history[:4])
    return f"{len(history)} released values{f' ({values}, ...)' if history else ''}"
