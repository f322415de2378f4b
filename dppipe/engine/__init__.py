"""The engine: per-sample gradient norms and clipped sums of any `nn.Module`.

They cost about as much as ordinary training. Use `clipped_sum` for one call and `Engine` for a fit.
Read next: `engine.py`, the algorithm, then `bounds.py`, which the guarantee rests on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.engine.checks.check import check_engine
    from dppipe.engine.contracts import ClippedSum
    from dppipe.engine.engine import Engine
    from dppipe.engine.losses import singleton_loss
    from dppipe.engine.memory import find_physical_batch_size
    from dppipe.engine.one_batch import clipped_sum
    from dppipe.engine.units import first_of_units

__all__ = [
    "ClippedSum",
    "Engine",
    "check_engine",
    "clipped_sum",
    "find_physical_batch_size",
    "first_of_units",
    "singleton_loss",
]

__getattr__ = lazy_names(
    __name__,
    {
        "ClippedSum": ".contracts",
        "Engine": ".engine",
        "check_engine": ".checks.check",
        "clipped_sum": ".one_batch",
        "find_physical_batch_size": ".memory",
        "first_of_units": ".units",
        "singleton_loss": ".losses",
    },
)
