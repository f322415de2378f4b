"""Cosine noise: it moves along half a cosine wave, slowly at both ends."""

from __future__ import annotations

from dppipe.component import Field
from dppipe.noise.base import NoiseSchedule
from dppipe.schedules.curves import cosine


class Cosine(NoiseSchedule, kind="cosine"):
    """Noise that moves along half a cosine wave to `end` times its first value."""

    end: float = Field(0.5, gt=0, description="The last value, as a multiple of the first.")

    def multiplier(self, progress: float) -> float:
        return cosine(progress, end=self.end)
