"""Noise schedules: how the noise changes over a run.

One kind a file, named after it; `base` is the contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.noise.base import NoiseSchedule
    from dppipe.noise.constant import Constant
    from dppipe.noise.cosine import Cosine
    from dppipe.noise.dynamic import Dynamic
    from dppipe.noise.dynamic_momentum import DynamicMomentum
    from dppipe.noise.exponential import Exponential
    from dppipe.noise.linear import Linear
    from dppipe.noise.piecewise import Piecewise
    from dppipe.noise.step import Step

__all__ = [
    "Constant",
    "Cosine",
    "Dynamic",
    "DynamicMomentum",
    "Exponential",
    "Linear",
    "NoiseSchedule",
    "Piecewise",
    "Step",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Constant": ".constant",
        "Cosine": ".cosine",
        "Dynamic": ".dynamic",
        "DynamicMomentum": ".dynamic_momentum",
        "Exponential": ".exponential",
        "Linear": ".linear",
        "NoiseSchedule": ".base",
        "Piecewise": ".piecewise",
        "Step": ".step",
    },
)
