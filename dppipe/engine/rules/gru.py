"""Gated recurrent units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dppipe.engine.rules.base import Rule, Unhandled, Use
from dppipe.engine.rules.lstm import recurrent_examples
from dppipe.engine.rules.recurrent import Receive, run_stack


class _Recurrence(torch.autograd.Function):
    """One layer's recurrence; the gates are in torch's order: reset, update, new."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        receive: Receive,
    ) -> tuple[Tensor, Tensor]:
        """Run through the positions and save what the backward pass needs."""
        steps = len(gates)
        rows, size = hidden.shape
        active = gates.clone()
        # Under autocast torch computes gates in half precision and keeps states as they come.
        dtype = torch.promote_types(hidden.dtype, gates.dtype)
        hiddens = gates.new_empty(steps + 1, rows, size, dtype=dtype)
        # The new gate's recurrent part, before it is reset.
        recurrent = gates.new_empty(steps, rows, size)
        hiddens[0] = hidden
        shift = torch.zeros_like(gates[0, 0]) if bias is None else bias
        for t in range(steps):
            now = active[t]
            part = torch.addmm(shift, hiddens[t].to(gates.dtype), weight.t())
            now[:, : 2 * size].add_(part[:, : 2 * size]).sigmoid_()
            recurrent[t] = part[:, 2 * size :]
            reset, update, new = now.chunk(3, 1)
            new.add_(reset * recurrent[t]).tanh_()
            torch.sub(hiddens[t], new, out=hiddens[t + 1]).mul_(update).add_(new)
        ctx.receive = receive
        ctx.save_for_backward(active, recurrent, weight, hiddens)
        return hiddens[1:].clone(), hiddens[-1].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Run back through the positions.

        What doesn't depend on later positions is computed for all of them at once.
        """
        *narrow, hiddens = ctx.saved_tensors
        active, recurrent, weight = [values.to(hiddens.dtype) for values in narrow]
        size = hiddens.shape[2]
        reset, update, new = active.chunk(3, 2)
        to_new = (1 - update) * (1 - new.square())
        to_update = (hiddens[:-1] - new) * update * (1 - update)
        to_reset = to_new * recurrent * reset * (1 - reset)
        slopes = torch.stack([to_reset, to_update, to_new * reset], 2)
        inner = torch.empty_like(active)
        outer = torch.empty_like(active)
        hidden = gradients[1].clone()
        for t in range(len(active) - 1, -1, -1):
            hidden += gradients[0][t]
            torch.mul(slopes[t], hidden.unsqueeze(1), out=inner[t].view(-1, 3, size))
            torch.mul(to_new[t], hidden, out=outer[t, :, 2 * size :])
            # In place: autocast would make the sum half-precise.
            hidden = (hidden * update[t]).addmm_(inner[t], weight)
        outer[:, :, : 2 * size] = inner[:, :, : 2 * size]
        receive = ctx.receive
        ctx.receive = None
        receive(hiddens[:-1], inner)
        return outer, hidden, None, None, None


def answer(use: Use, input: Tensor, hx: Any, params: Any, *options: Any) -> tuple[Tensor, ...]:
    """Answer `torch.gru`."""
    if not isinstance(params, Sequence):
        raise Unhandled("a recurrent layer on a packed sequence")
    return run_stack(use, _Recurrence, input, [hx], params, *options)


RULE = Rule(
    name="gru",
    functions=(torch.gru,),
    answer=answer,
    kernels=("ghost", "dense"),
    examples=recurrent_examples(nn.GRU),
)
