"""Step noise: constant in equal parts of a run, multiplied by one factor from part to part."""

from __future__ import annotations

from dppipe.component import Field
from dppipe.noise.base import NoiseSchedule
from dppipe.schedules.curves import step


class Step(NoiseSchedule, kind="step"):
    """Noise that is multiplied by `factor` at each of `drops` evenly spaced moments."""

    factor: float = Field(
        0.5, ge=0.01, le=100, description="What the noise is multiplied by at each drop."
    )
    drops: int = Field(2, ge=1, le=100, description="How many times; the run has one part more.")

    def multiplier(self, progress: float) -> float:
        return step(progress, factor=self.factor, drops=self.drops)
