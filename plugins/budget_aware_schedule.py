"""A plugin noise schedule that adapts to private outputs: it lowers the noise when what was released stops falling.

Less noise costs more, and here the cost of a step is chosen after seeing earlier ones. So no plan can commit to it: a run
needs a filter, which stops it before the sum of what was really spent exceeds the budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from dppipe import Field, NoiseSchedule


class BudgetAware(NoiseSchedule, kind="budget_aware"):
    """Noise that stays while released values fall and shrinks when they stall: the budget goes where it helps.

    Guarantee: the noise follows released values alone, which cost nothing more to look at. That the steps together stay within
    the budget is the filter's to prove (Rogers et al. 2016; Feldman and Zrnic 2021), not this schedule's.
    """

    adaptive: ClassVar[bool] = True

    patience: int = Field(10, gt=0, description="Steps without a new low before the noise shrinks.")
    decay: float = Field(0.8, gt=0, lt=1, description="What the noise is multiplied by each time.")
    floor: float = Field(
        0.3, gt=0, le=1, description="The least noise, as a multiple of the first."
    )

    def multiplier(
        self, progress: float
    ) -> float:  # what can be counted on before anything is released
        return 1.0

    def next_multiplier(
        self, history: Sequence[float]
    ) -> float:  # one released value for each step so far
        size, lowest, waited = 1.0, math.inf, 0
        for value in history:
            lowest, waited = (value, 0) if value < lowest else (lowest, waited + 1)
            if waited == self.patience:
                size, lowest, waited = max(self.floor, size * self.decay), math.inf, 0
        return size
