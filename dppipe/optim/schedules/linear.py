"""A learning rate that falls in a straight line."""

from __future__ import annotations

from dppipe.component import Field
from dppipe.optim.schedules.base import LRSchedule
from dppipe.schedules.curves import linear


class Linear(LRSchedule, kind="linear"):
    """The learning rate falls in a straight line to `end` times its first value."""

    end: float = Field(0.0, ge=0, description="The factor that the end of the run would have.")

    def factor(self, progress: float) -> float:
        return linear(progress, end=self.end)
