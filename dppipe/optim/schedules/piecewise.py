"""A factor that is constant in each of several parts of a run."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.optim.schedules.base import LRSchedule
from dppipe.schedules.parts import check_parts, piecewise


class Piecewise(LRSchedule, kind="piecewise"):
    """The factor is each of `values` in turn and goes to the next at each of `boundaries`."""

    values: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (1.0, 0.1), min_length=1, description="The factor in each part."
    )
    boundaries: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        (0.5,), description="Where each next part begins, as a share of the run: 0.5 is half-way."
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        check_parts(self.values, self.boundaries)
        return self

    def factor(self, progress: float) -> float:
        return piecewise(progress, values=self.values, boundaries=self.boundaries)
