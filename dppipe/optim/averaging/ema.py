"""Exponential moving average: a mean of the weights that forgets the older ones."""

from __future__ import annotations

from dppipe.component import Field
from dppipe.optim.averaging.base import Averaging


class Ema(Averaging, kind="ema"):
    """A mean in which each step counts `decay` times as much as the next, without initial bias."""

    decay: float = Field(
        0.99,
        gt=0,
        lt=1,
        description="What a step's weight in the mean is multiplied by at the next step.",
    )

    def weight(self, step: int, *, steps: int) -> float:
        return (1 - self.decay) / (1 - self.decay**step)
