"""Piecewise noise: a list of values, each for its own part of a run."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.noise.base import NoiseSchedule
from dppipe.schedules.parts import check_parts, piecewise


class Piecewise(NoiseSchedule, kind="piecewise"):
    """Noise that has each of `values` in turn and goes to the next at each of `boundaries`."""

    values: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (1.0, 0.5),
        min_length=1,
        description="The noise in each part, relative to `noise_multiplier`.",
    )
    boundaries: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        (0.5,), description="Where each next part begins, as a share of the run: 0.5 is half-way."
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        check_parts(self.values, self.boundaries)
        return self

    def multiplier(self, progress: float) -> float:
        return piecewise(progress, values=self.values, boundaries=self.boundaries)
