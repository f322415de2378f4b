"""Learning-rate schedules. One kind a file, named after it; `base` is the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.optim.schedules.base import LRSchedule
    from dppipe.optim.schedules.constant import Constant
    from dppipe.optim.schedules.cosine import Cosine
    from dppipe.optim.schedules.linear import Linear

__all__ = ["Constant", "Cosine", "LRSchedule", "Linear"]

__getattr__ = lazy_names(__name__, {"Constant": ".constant", "Cosine": ".cosine", "LRSchedule": ".base", "Linear": ".linear"})
