"""Iterate averaging: which mean of a run's weights is its result.

One kind a file, named after it; `base` is the contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.optim.averaging.base import Averaging
    from dppipe.optim.averaging.ema import Ema
    from dppipe.optim.averaging.polyak import Polyak

__all__ = ["Averaging", "Ema", "Polyak"]

__getattr__ = lazy_names(__name__, {"Averaging": ".base", "Ema": ".ema", "Polyak": ".polyak"})
