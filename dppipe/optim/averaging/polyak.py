"""Polyak averaging: the mean of the weights over the end of a run (Polyak and Juditsky 1992)."""

from __future__ import annotations

import math

from dppipe.component import Field
from dppipe.optim.averaging.base import Averaging


class Polyak(Averaging, kind="polyak"):
    """The equally weighted mean of the weights after each of the last steps.

    Before those steps it is the weights themselves.
    """

    start: float = Field(
        0.5,
        ge=0,
        lt=1,
        description="The share of the run that is left out: 0.5 averages its second half.",
    )

    def weight(self, step: int, *, steps: int) -> float:
        return 1 / max(1, step - math.floor(self.start * steps))
