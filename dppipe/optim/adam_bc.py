"""DP-AdamBC: Adam with a second moment that is corrected for the noise.

Source: Tang, Shpilevskiy and Lecuyer 2024 (AAAI, arXiv 2312.14334). Independent noise of variance
Phi on each coordinate leaves Adam's mean of the gradients right, but adds Phi to its mean of their
squares. Where the noise is larger than the gradient, every coordinate is then divided by about the
same number, and Adam becomes momentum SGD. Here Phi, which is public, is subtracted again.

With a noise schedule Phi moves; the same running mean is taken of it as of the squares. Read next:
`known_noise.py`, how a step's noise gets here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dppipe.component import Field
from dppipe.optim.base import Optimizer, torch_options

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer as TorchOptimizer


class AdamBC(Optimizer, kind="adam_bc"):
    """Adam that subtracts the known variance of the noise from its mean of squared gradients.

    It divides by `sqrt(max(v - Phi, floor)) + eps`. Without noise there is nothing to correct, and
    it is Adam.
    """

    uses_noise: ClassVar[bool] = True

    lr: float = Field(0.001, gt=0, description="The learning rate.")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.999), description="What the two running means keep at each step."
    )
    eps: float = Field(1e-8, gt=0, description="Added to the divisor.")
    floor: float = Field(
        1e-6,
        gt=0,
        description="The least mean of squares after the correction (gamma' in the paper): a "
        "smaller one lets coordinates with little but noise take longer steps.",
    )
    weight_decay: float = Field(
        0.0, ge=0, description="The share of each weight that is added to its gradient."
    )

    def build(self, params: Iterable[nn.Parameter]) -> TorchOptimizer:
        from dppipe.optim.known_noise import NOISE_STD

        return _optimizer_class()(params, {**torch_options(self), NOISE_STD: 0.0})


@functools.cache
def _optimizer_class() -> type[TorchOptimizer]:
    """Make the torch optimizer's class here, since this file loads without torch."""
    import torch
    from torch.optim import Optimizer as TorchOptimizer

    class BiasCorrectedAdam(TorchOptimizer):
        """DP-AdamBC as an ordinary torch optimizer."""

        @torch.no_grad()
        def step(self, closure: Callable[[], Any] | None = None) -> Any:
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        _move(parameter, parameter.grad, group, self.state[parameter])
            return loss

    return BiasCorrectedAdam


def _move(
    parameter: nn.Parameter, gradient: Tensor, group: dict[str, Any], state: dict[str, Any]
) -> None:
    """Take a parameter's step, and update its running means."""
    import torch

    if not state:
        means = {"mean": torch.zeros_like(parameter), "squares": torch.zeros_like(parameter)}
        state.update(steps=0, noise_variance=0.0, **means)
    if group["weight_decay"]:
        gradient = torch.add(gradient, parameter, alpha=group["weight_decay"])
    first, second = group["betas"]
    state["steps"] += 1
    state["mean"].mul_(first).add_(gradient, alpha=1 - first)
    state["squares"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
    noise = second * state["noise_variance"] + (1 - second) * group["gradient_noise_std"] ** 2
    state["noise_variance"] = noise
    # All means start at 0, which is divided out.
    unbiased = 1 - second ** state["steps"]
    squares = state["squares"] / unbiased
    if noise > 0:
        squares.sub_(noise / unbiased).clamp_(min=group["floor"])
    divisor = squares.sqrt_().add_(group["eps"])
    rate = group["lr"] / (1 - first ** state["steps"])
    parameter.addcdiv_(state["mean"], divisor, value=-rate)
