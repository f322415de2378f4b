"""Cosine noise: from its first value to its last along half a cosine wave, slowly at both ends."""

from __future__ import annotations

import math

from dppipe.component import Field
from dppipe.noise.base import NoiseSchedule


class Cosine(NoiseSchedule, kind="cosine"):
    """Noise that moves along half a cosine wave to `end` times its first value."""

    end: float = Field(0.5, gt=0, description="The last value, as a multiple of the first.")

    def multiplier(self, progress: float) -> float:
        return self.end + (1 - self.end) * (1 + math.cos(math.pi * progress)) / 2
