"""Long short-term memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dppipe.engine.rules.base import Example, Rule, Unhandled, Use
from dppipe.engine.rules.recurrent import Receive, run_stack


class _Recurrence(torch.autograd.Function):
    """One layer's recurrence; the gates are in torch's order: input, forget, cell, output."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        hidden: Tensor,
        cell: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        receive: Receive,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run through the positions and save what the backward pass needs."""
        steps = len(gates)
        rows, size = hidden.shape
        active = gates.clone() if bias is None else gates + bias
        hiddens = gates.new_empty(steps + 1, rows, size)
        cells = gates.new_empty(steps + 1, rows, size)
        squashed = gates.new_empty(steps, rows, size)
        hiddens[0] = hidden
        cells[0] = cell
        weight_t = weight.t()
        for now, earlier, later, cell, next_cell, squash in zip(
            active, hiddens[:-1], hiddens[1:], cells[:-1], cells[1:], squashed, strict=True
        ):
            inputs, forget, update, output = torch.split(now.addmm_(earlier, weight_t), size, 1)
            now[:, : 2 * size].sigmoid_()
            update.tanh_()
            output.sigmoid_()
            torch.mul(forget, cell, out=next_cell).addcmul_(inputs, update)
            torch.tanh(next_cell, out=squash)
            torch.mul(output, squash, out=later)
        ctx.receive = receive
        ctx.save_for_backward(active, hiddens, cells, squashed, weight)
        return hiddens[1:].clone(), hiddens[-1].clone(), cells[-1].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Run back through the positions.

        What doesn't depend on later positions is computed for all of them at once.
        """
        active, hiddens, cells, squashed, weight = ctx.saved_tensors
        size = hiddens.shape[2]
        inputs, forget, update, output = torch.split(active, size, 2)
        to_cell = output * (1 - squashed.square())
        # First the derivative of the cell by the inputs of three gates (input, forget, update), and
        # of the hidden state by that of the output gate. The loop multiplies them by the gradients.
        gates = torch.empty_like(active)
        to_input, to_forget, to_update, to_output = torch.split(gates, size, 2)
        torch.mul(update, inputs - inputs.square(), out=to_input)
        torch.mul(cells[:-1], forget - forget.square(), out=to_forget)
        torch.mul(inputs, 1 - update.square(), out=to_update)
        torch.mul(squashed, output - output.square(), out=to_output)
        hidden = gradients[1].clone()
        cell = gradients[2].clone()
        for t in range(len(active) - 1, -1, -1):
            hidden += gradients[0][t]
            cell.addcmul_(hidden, to_cell[t])
            now = gates[t]
            now[:, : 3 * size].view(-1, 3, size).mul_(cell.unsqueeze(1))
            now[:, 3 * size :].mul_(hidden)
            cell *= forget[t]
            hidden = now @ weight
        receive = ctx.receive
        ctx.receive = None
        receive(hiddens[:-1], gates)
        return gates, hidden, cell, None, None, None


def answer(use: Use, input: Tensor, hx: Any, params: Any, *options: Any) -> tuple[Tensor, ...]:
    """Answer `torch.lstm`."""
    if isinstance(hx, Tensor) or not isinstance(params, Sequence):
        raise Unhandled("a recurrent layer on a packed sequence")
    if hx[0].shape[2] != hx[1].shape[2]:
        raise Unhandled("a recurrent layer with projections")
    return run_stack(use, _Recurrence, input, hx, params, *options)


class _Tagger(nn.Module):
    """A recurrent layer that uses its outputs and its last states."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        outputs, last = self.layer(x if self.layer.batch_first else x.transpose(0, 1))
        outputs = outputs if self.layer.batch_first else outputs.transpose(0, 1)
        flat = [outputs.flatten(1)]
        for state in last if isinstance(last, tuple) else (last,):
            flat.append(state.transpose(0, 1).flatten(1))
        return torch.cat(flat, 1)


def recurrent_examples(layer: Any) -> tuple[Example, ...]:
    """Return examples of a recurrent layer."""

    def example(**options: Any) -> Example:
        return Example(
            lambda: _Tagger(layer(3, 4, **options)), lambda rows: (torch.randn(rows, 5, 3),)
        )

    return (
        example(),
        example(num_layers=2, bidirectional=True, batch_first=True),
        example(bias=False, batch_first=True),
    )


RULE = Rule(
    name="lstm",
    functions=(torch.lstm,),
    answer=answer,
    kernels=("ghost", "dense"),
    examples=recurrent_examples(nn.LSTM),
)
