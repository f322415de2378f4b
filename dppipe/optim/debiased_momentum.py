"""Debiased momentum: gradient descent along an average of the gradients so far.

Source: Hong, Wang and Zhou 2022, Algorithm 2. Ordinary momentum sums gradients; here they are
averaged, and the average is corrected for its start at zero, so the first steps are as long as the
later ones. It is the companion of the noise schedule `dynamic_momentum`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dppipe.component import Field
from dppipe.optim.base import Optimizer

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer as TorchOptimizer


class DebiasedMomentum(Optimizer, kind="debiased_momentum"):
    """Steps against `v / (1 - beta^t)` at step t, where `v = beta v + (1 - beta) gradient`."""

    lr: float = Field(0.1, gt=0, description="The learning rate.")
    beta: float = Field(
        0.9, ge=0, lt=1, description="The share of the average that is kept at a step."
    )
    weight_decay: float = Field(
        0.0, ge=0, description="The share of each weight that is added to its gradient."
    )

    def build(self, params: Iterable[nn.Parameter]) -> TorchOptimizer:
        return _optimizer_class()(
            params, {"lr": self.lr, "beta": self.beta, "weight_decay": self.weight_decay}
        )


@functools.cache
def _optimizer_class() -> type[TorchOptimizer]:
    """Make the torch optimizer's class here, since this file loads without torch."""
    import torch
    from torch.optim import Optimizer as TorchOptimizer

    class DebiasedMomentumSGD(TorchOptimizer):
        """Algorithm 2 of Hong, Wang and Zhou (2022) as an ordinary torch optimizer."""

        @torch.no_grad()
        def step(self, closure: Callable[[], Any] | None = None) -> Any:
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        continue
                    self._move(
                        parameter,
                        parameter.grad,
                        lr=group["lr"],
                        beta=group["beta"],
                        weight_decay=group["weight_decay"],
                    )
            return loss

        def _move(
            self,
            parameter: nn.Parameter,
            gradient: torch.Tensor,
            *,
            lr: float,
            beta: float,
            weight_decay: float,
        ) -> None:
            state = self.state[parameter]
            if not state:
                state.update(steps=0, average=torch.zeros_like(parameter))
            if weight_decay:
                gradient = torch.add(gradient, parameter, alpha=weight_decay)
            state["steps"] += 1
            state["average"].mul_(beta).add_(gradient, alpha=1 - beta)
            parameter.add_(state["average"], alpha=-lr / (1 - beta ** state["steps"]))

    return DebiasedMomentumSGD
