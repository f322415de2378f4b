"""Adam: steps scaled by running means of gradients and of their squares (Kingma and Ba 2015)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from dppipe.component import Field
from dppipe.optim.base import Optimizer, torch_options

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer as TorchOptimizer


class Adam(Optimizer, kind="adam"):
    """Scales each step by running means of gradients and of their squares."""

    lr: float = Field(0.001, gt=0, description="The learning rate.")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.999), description="What the two running means keep at each step."
    )
    eps: float = Field(1e-8, gt=0, description="Added to the divisor.")
    weight_decay: float = Field(
        0.0, ge=0, description="The share of each weight that is added to its gradient."
    )

    def build(self, params: Iterable[nn.Parameter]) -> TorchOptimizer:
        from torch import optim

        return optim.Adam(params, **torch_options(self))
