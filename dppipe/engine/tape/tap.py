"""The tap on an output: an identity whose backward pass hands the output's gradient to a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Tap(torch.autograd.Function):
    """The identity; its backward pass hands the gradient to a rule."""

    @staticmethod
    def forward(
        ctx: Any, output: Tensor, anchor: Tensor, receive: Callable[..., None], *saved: Tensor
    ) -> Tensor:
        """Save what the rule needs; autograd raises if it is changed in place in between.

        `anchor` requires a gradient, so the backward pass always comes here.
        """
        ctx.receive = receive
        ctx.strides = output.stride()
        ctx.mark_dirty(output)
        ctx.save_for_backward(*saved)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Hand the gradient to the rule and pass it on."""
        gradient = gradients[0]
        if gradient.stride() != ctx.strides:
            # One copy here saves one in each product that takes the gradient.
            gradient = torch.empty_strided(
                gradient.shape, ctx.strides, dtype=gradient.dtype, device=gradient.device
            ).copy_(gradient)
        saved = ctx.saved_tensors
        receive = ctx.receive
        ctx.receive = None
        # Detached, since a history would keep the tape alive.
        receive(gradient.detach(), *[tensor.detach() for tensor in saved])
        return gradient, None, None, *[None] * len(saved)
