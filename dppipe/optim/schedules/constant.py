"""The same learning rate at every step."""

from __future__ import annotations

from dppipe.optim.schedules.base import LRSchedule
from dppipe.schedules.curves import constant


class Constant(LRSchedule, kind="constant"):
    """The learning rate stays as it is."""

    def factor(self, progress: float) -> float:
        return constant(progress)
