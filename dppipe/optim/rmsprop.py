"""RMSprop: steps scaled by a running mean of squared gradients (Tieleman and Hinton 2012)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dppipe.component import Field
from dppipe.optim.base import Optimizer, torch_options

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer as TorchOptimizer


class RmsProp(Optimizer, kind="rmsprop"):
    """Divides each step by the root of a running mean of squared gradients."""

    lr: float = Field(0.01, gt=0, description="The learning rate.")
    alpha: float = Field(0.99, ge=0, lt=1, description="What the running mean keeps at each step.")
    momentum: float = Field(
        0.0, ge=0, lt=1, description="The share of the last direction that is kept."
    )
    eps: float = Field(1e-8, gt=0, description="Added to the divisor.")
    weight_decay: float = Field(
        0.0, ge=0, description="The share of each weight that is added to its gradient."
    )

    def build(self, params: Iterable[nn.Parameter]) -> TorchOptimizer:
        from torch import optim

        return optim.RMSprop(params, **torch_options(self))
