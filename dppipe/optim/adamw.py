"""AdamW: Adam with weight decay that bypasses the scaling (Loshchilov and Hutter 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from dppipe.component import Field
from dppipe.optim.base import Optimizer, torch_options

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer as TorchOptimizer


class AdamW(Optimizer, kind="adamw"):
    """Adam whose weight decay shrinks the weights directly."""

    lr: float = Field(0.001, gt=0, description="The learning rate.")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.999), description="What the two running means keep at each step."
    )
    eps: float = Field(1e-8, gt=0, description="Added to the divisor.")
    weight_decay: float = Field(
        0.01,
        ge=0,
        description="The share of each weight that a step takes off, times the learning rate.",
    )

    def build(self, params: Iterable[nn.Parameter]) -> TorchOptimizer:
        from torch import optim

        return optim.AdamW(params, **torch_options(self))
