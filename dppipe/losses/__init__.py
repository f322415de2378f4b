"""Losses: what training lowers, one number for each record.

One kind a file, named after it; `base` is the contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.losses.base import Loss
    from dppipe.losses.cross_entropy import CrossEntropy
    from dppipe.losses.focal import Focal
    from dppipe.losses.huber import Huber
    from dppipe.losses.mse import Mse

__all__ = ["CrossEntropy", "Focal", "Huber", "Loss", "Mse"]

__getattr__ = lazy_names(
    __name__,
    {
        "CrossEntropy": ".cross_entropy",
        "Focal": ".focal",
        "Huber": ".huber",
        "Loss": ".base",
        "Mse": ".mse",
    },
)
