"""Averages of weights: a share for every step of every run."""

from __future__ import annotations

from typing import Any

from dppipe.optim.averaging.base import Averaging
from dppipe.plugin_kit.checks.table import Fault, Remark, check_each

LENGTHS = (1, 2, 10, 1000)


def exercise(averaging: Averaging) -> Any:
    """Ask for the shares of several runs."""
    return [
        [averaging.weight(step, steps=steps) for step in range(1, steps + 1)] for steps in LENGTHS
    ]


@check_each("averaging")
def every_share(averaging: Averaging) -> Remark:
    """The share of every step is from 0 to 1, and that of the first is 1."""
    for steps in LENGTHS:
        for step in range(1, steps + 1):
            share = averaging.weight(step, steps=steps)
            if not (0 <= share <= 1) or (step == 1 and share != 1):
                wanted = "1" if step == 1 else "a share from 0 to 1"
                raise Fault(
                    f"expected {wanted} at step {step} of {steps}, got {share:g}: the mean "
                    "would not be one."
                )
    return None
