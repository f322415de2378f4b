"""Constant noise: the same multiplier at every step."""

from __future__ import annotations

from typing import ClassVar

from dppipe.noise.base import NoiseSchedule
from dppipe.schedules.curves import constant


class Constant(NoiseSchedule, kind="constant"):
    """The same noise at every step."""

    constant: ClassVar[bool] = True

    def multiplier(self, progress: float) -> float:
        return constant(progress)
