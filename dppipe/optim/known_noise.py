"""The size of the noise in a gradient, for the optimizers that ask for it.

An optimizer asks by a setting of its parameter groups, `gradient_noise_std`, as it has one for its
learning rate. Before each update the setting becomes the standard deviation of the noise on each
coordinate of the gradient: noise multiplier times bound over the public divisor. These numbers are
in the plan and the ledger, so whoever reads them learns nothing of a record. Without noise it is 0.

An optimizer of a user's own module gets it in the same way, and none is wrapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.optim import Optimizer as TorchOptimizer

NOISE_STD = "gradient_noise_std"
"""The setting of a parameter group that asks for the noise."""


def asks_for_noise(optimizer: TorchOptimizer) -> bool:
    """Return whether an optimizer wants to know the size of the noise."""
    return any(NOISE_STD in group for group in optimizer.param_groups)


def tell_noise(optimizer: TorchOptimizer, std: float) -> None:
    """Set the standard deviation of the next gradient's noise where an optimizer asks for it."""
    for group in optimizer.param_groups:
        if NOISE_STD in group:
            group[NOISE_STD] = std
