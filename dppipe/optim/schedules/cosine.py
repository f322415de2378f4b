"""A learning rate that falls along half a cosine (Loshchilov and Hutter 2017, without restarts)."""

from __future__ import annotations

from dppipe.component import Field
from dppipe.optim.schedules.base import LRSchedule
from dppipe.schedules.curves import cosine


class Cosine(LRSchedule, kind="cosine"):
    """The learning rate falls along half a cosine to `end` times its first value."""

    end: float = Field(0.0, ge=0, description="The factor that the end of the run would have.")

    def factor(self, progress: float) -> float:
        return cosine(progress, end=self.end)
