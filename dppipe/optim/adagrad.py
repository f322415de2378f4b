"""Adagrad: steps that shrink with the sum of squared gradients (Duchi et al. 2011)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dppipe.component import Field
from dppipe.optim.base import Optimizer, torch_options

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer as TorchOptimizer


class Adagrad(Optimizer, kind="adagrad"):
    """Divides each step by the root of the sum of squared gradients so far."""

    lr: float = Field(0.01, gt=0, description="The learning rate.")
    lr_decay: float = Field(
        0.0,
        ge=0,
        description="How fast the rate falls: it is divided by 1 + lr_decay * step.",
    )
    eps: float = Field(1e-10, gt=0, description="Added to the divisor.")
    weight_decay: float = Field(
        0.0, ge=0, description="The share of each weight that is added to its gradient."
    )

    def build(self, params: Iterable[nn.Parameter]) -> TorchOptimizer:
        from torch import optim

        return optim.Adagrad(params, **torch_options(self))
