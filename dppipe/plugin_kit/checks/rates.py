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
def every_step(schedule: LRSchedule) -> Remark:
    """Every step of runs of 1, 2, 10 and 1000 has a finite factor > 0."""
    for steps in LENGTHS:
        for step in range(steps):
            factor = schedule.factor_at(step, steps=steps)
            if not (math.isfinite(factor) and factor > 0):
                raise Fault(
                    f"expected a finite factor > 0 at step {step} of {steps}, got {factor:g}: it would be paid for in vain."
                )
    return None
