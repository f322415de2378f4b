"""Schedules: a factor over a run, on the learning rate, the batch size or the clipping bound.

One kind a file, named after it; `base` is the contract and `dppipe.schedules` has the arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.optim.schedules.base import LRSchedule
    from dppipe.optim.schedules.constant import Constant
    from dppipe.optim.schedules.cosine import Cosine
    from dppipe.optim.schedules.exponential import Exponential
    from dppipe.optim.schedules.linear import Linear
    from dppipe.optim.schedules.piecewise import Piecewise

__all__ = ["Constant", "Cosine", "Exponential", "LRSchedule", "Linear", "Piecewise"]

__getattr__ = lazy_names(
    __name__,
    {
        "Constant": ".constant",
        "Cosine": ".cosine",
        "Exponential": ".exponential",
        "LRSchedule": ".base",
        "Linear": ".linear",
        "Piecewise": ".piecewise",
    },
)
