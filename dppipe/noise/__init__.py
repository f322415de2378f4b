"""Noise schedules: how the noise moves over a run. One kind a file, named after it; `base` is the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.noise.base import NoiseSchedule
    from dppipe.noise.constant import Constant
    from dppipe.noise.linear import Linear

__all__ = ["Constant", "Linear", "NoiseSchedule"]

__getattr__ = lazy_names(__name__, {"Constant": ".constant", "Linear": ".linear", "NoiseSchedule": ".base"})
