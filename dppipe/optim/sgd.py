"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.optim.base import Optimizer, torch_options

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer as TorchOptimizer


class Sgd(Optimizer, kind="sgd"):
    """Steps against the gradient, or against a decaying sum of gradients."""

    lr: float = Field(0.1, gt=0, description="The learning rate.")
    momentum: float = Field(
        0.0, ge=0, lt=1, description="The share of the last direction that is kept."
    )
    nesterov: bool = Field(False, description="Whether momentum looks ahead.")
    weight_decay: float = Field(
        0.0, ge=0, description="The share of each weight that is added to its gradient."
    )

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and not self.momentum:
            raise ValueError(
                "expected momentum > 0 with nesterov, got 0. Set momentum, or leave nesterov out."
            )
        return self

    def build(self, params: Iterable[nn.Parameter]) -> TorchOptimizer:
        from torch import optim

        return optim.SGD(params, **torch_options(self))
