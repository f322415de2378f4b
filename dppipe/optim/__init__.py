"""Optimizers: options that build a torch optimizer.

One kind a file, named after it; `base` is the contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.optim.adagrad import Adagrad
    from dppipe.optim.adam import Adam
    from dppipe.optim.adam_bc import AdamBC
    from dppipe.optim.adamw import AdamW
    from dppipe.optim.base import Optimizer
    from dppipe.optim.debiased_momentum import DebiasedMomentum
    from dppipe.optim.rmsprop import RmsProp
    from dppipe.optim.sgd import Sgd

__all__ = ["Adagrad", "Adam", "AdamBC", "AdamW", "DebiasedMomentum", "Optimizer", "RmsProp", "Sgd"]

__getattr__ = lazy_names(
    __name__,
    {
        "Adagrad": ".adagrad",
        "Adam": ".adam",
        "AdamBC": ".adam_bc",
        "AdamW": ".adamw",
        "DebiasedMomentum": ".debiased_momentum",
        "Optimizer": ".base",
        "RmsProp": ".rmsprop",
        "Sgd": ".sgd",
    },
)
