"""Values that hold for several steps of a plan in a row, and points of its epsilon curve."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class NoiseRun(BaseModel):
    """Steps in a row with one noise multiplier."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    noise_multiplier: float
    steps: int


class BatchRun(BaseModel):
    """Steps in a row with one sample rate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sample_rate: float
    expected_batch_size: float
    steps: int


class BoundRun(BaseModel):
    """Steps in a row with one factor on the clipper's bounds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    factor: float
    steps: int


class CurvePoint(BaseModel):
    """The epsilon that is spent after so many steps."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: int
    epsilon: float
