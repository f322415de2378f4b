"""A factor that is multiplied by the same number at every step."""

from __future__ import annotations

from dppipe.component import Field
from dppipe.optim.schedules.base import LRSchedule
from dppipe.schedules.curves import exponential


class Exponential(LRSchedule, kind="exponential"):
    """The factor changes by one proportion at each step, towards `end` times its first value."""

    end: float = Field(0.1, gt=0, description="The factor that the end of the run would have.")

    def factor(self, progress: float) -> float:
        return exponential(progress, end=self.end)
