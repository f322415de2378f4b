"""Linear noise: it moves in a straight line from its first value to its last."""

from __future__ import annotations

from dppipe.component import Field
from dppipe.noise.base import NoiseSchedule
from dppipe.schedules.curves import linear


class Linear(NoiseSchedule, kind="linear"):
    """Noise that moves in a straight line to `end` times its first value."""

    end: float = Field(0.5, gt=0, description="The last value, as a multiple of the first.")

    def multiplier(self, progress: float) -> float:
        return linear(progress, end=self.end)
