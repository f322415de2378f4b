"""Exponential noise: each step's multiplier is the same fraction of the one before."""

from __future__ import annotations

from dppipe.component import Field
from dppipe.noise.base import NoiseSchedule
from dppipe.schedules.curves import exponential


class Exponential(NoiseSchedule, kind="exponential"):
    """Noise that falls by the same factor at every step, to `end` times its first value."""

    end: float = Field(0.5, gt=0, description="The last value, as a multiple of the first.")

    def multiplier(self, progress: float) -> float:
        return exponential(progress, end=self.end)
