"""Values that hold for several steps of a plan in a row, and points of its epsilon curve."""

from __future__ import annotations

from dppipe.planning.frozen_data import FrozenData


class NoiseRun(FrozenData):
    """Steps in a row with one noise multiplier."""

    noise_multiplier: float
    steps: int


class BatchRun(FrozenData):
    """Steps in a row with one sample rate."""

    sample_rate: float
    expected_batch_size: float
    steps: int


class BoundRun(FrozenData):
    """Steps in a row with one factor on the clipper's bounds."""

    factor: float
    steps: int


class CurvePoint(FrozenData):
    """The epsilon that is spent after so many steps."""

    step: int
    epsilon: float
