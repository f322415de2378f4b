"""Schedules of learning rates and the like: a factor for every step of every run."""

from __future__ import annotations

import math
from typing import Any

from dppipe.optim.schedules.base import LRSchedule
from dppipe.plugin_kit.checks.table import Fault, Remark, check_each

LENGTHS = (1, 2, 10, 1000)


def exercise(schedule: LRSchedule) -> Any:
    """Ask for the factors of several runs."""
    return [[schedule.factor_at(step, steps=steps) for step in range(steps)] for steps in LENGTHS]


@check_each("schedule")
def sets_the_rate(schedule: LRSchedule) -> Remark:
    """It sets the rate of each step, also where a run goes on from a checkpoint."""
    optimizer, scheduler = _built(schedule)
    for step in range(10):
        wanted = 0.5 * schedule.factor_at(step, steps=10)
        rate = optimizer.param_groups[0]["lr"]
        if not math.isclose(rate, wanted, rel_tol=1e-6):
            raise Fault(f"expected a rate of {wanted:g} at step {step} of 10, got {rate:g}.")
        optimizer.step()
        scheduler.step()
        saved = (optimizer.state_dict(), scheduler.state_dict())
        optimizer, scheduler = _built(schedule)
        scheduler.load_state_dict(saved[1])
        optimizer.load_state_dict(saved[0])
    return None


def _built(schedule: LRSchedule) -> tuple[Any, Any]:
    """Return a torch optimizer of rate 0.5 and its scheduler for ten steps."""
    import torch

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    return optimizer, schedule.build(optimizer, 10)


@check_each("schedule")
def every_step(schedule: LRSchedule) -> Remark:
    """Every step of runs of 1, 2, 10 and 1000 has a finite factor > 0."""
    for steps in LENGTHS:
        for step in range(steps):
            factor = schedule.factor_at(step, steps=steps)
            if not (math.isfinite(factor) and factor > 0):
                raise Fault(
                    f"expected a finite factor > 0 at step {step} of {steps}, got "
                    f"{factor:g}: the step would be charged and change nothing."
                )
    return None
