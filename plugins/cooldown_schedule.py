"""A plugin noise schedule: more noise at first, when gradients are large, and less at the end."""

from __future__ import annotations

from dppipe import Field, NoiseSchedule


class Cooldown(NoiseSchedule, kind="cooldown"):
    """Noise that holds its first value for a while and then falls in a straight line to `end` times it."""

    hold: float = Field(0.25, ge=0, lt=1, description="The share of the run before the fall.")
    end: float = Field(0.5, gt=0, description="The last value, as a multiple of the first.")

    def multiplier(self, progress: float) -> float:  # 0.0 at the first step, 1.0 at the last
        return 1 + (self.end - 1) * max(0.0, progress - self.hold) / (1 - self.hold)
