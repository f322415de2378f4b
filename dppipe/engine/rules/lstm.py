"""Long short-term memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dppipe.engine.rules.base import Example, Rule, Unhandled, Use
from dppipe.engine.rules.recurrent import Receive, run_stack


class _Recurrence(torch.autograd.Function):
    """One layer's recurrence; gates stand in torch's order: input, forget, cell, output."""

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
        """Run through the positions and keep what the way back needs."""
        steps, rows, size = len(gates), *hidden.shape
        active = gates.clone() if bias is None else gates + bias
        hiddens, cells, squashed = (gates.new_empty(steps + n, rows, size) for n in (1, 1, 0))
        hiddens[0], cells[0] = hidden, cell
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
        """Run back through the positions; all that doesn't depend on later ones is computed for all at once."""
        active, hiddens, cells, squashed, weight = ctx.saved_tensors
        size = hiddens.shape[2]
        inputs, forget, update, output = torch.split(active, size, 2)
        to_cell = output * (1 - squashed.square())
        # How each gate's input moves the cell (input, forget, update) or the hidden state (output); then times those gradients.
        gates = torch.empty_like(active)
        for slope, gate, times in zip(
            torch.split(gates, size, 2),
            (inputs, forget, update, output),
            (update, cells[:-1], inputs, squashed),
            strict=True,
        ):
            torch.mul(
                times, 1 - gate.square() if gate is update else gate - gate.square(), out=slope
            )
        hidden, cell = gradients[1].clone(), gradients[2].clone()
        for t in range(len(active) - 1, -1, -1):
            hidden += gradients[0][t]
            cell.addcmul_(hidden, to_cell[t])
            now = gates[t]
            now[:, : 3 * size].view(-1, 3, size).mul_(cell.unsqueeze(1))
            now[:, 3 * size :].mul_(hidden)
            cell *= forget[t]
            hidden = now @ weight
        receive, ctx.receive = ctx.receive, None
        receive(hiddens[:-1], gates)
        return gates, hidden, cell, None, None, None


def _run(
    gates: Tensor, states: list[Tensor], weight: Tensor, bias: Tensor | None, receive: Receive
) -> tuple[Tensor, ...]:
    found: tuple[Tensor, ...] = _Recurrence.apply(gates, *states, weight, bias, receive)  # type: ignore[no-untyped-call]
    return found


def answer(use: Use, input: Tensor, hx: Any, params: Any, *options: Any) -> tuple[Tensor, ...]:
    """Answer `torch.lstm`."""
    if isinstance(hx, Tensor) or not isinstance(params, Sequence):
        raise Unhandled("a recurrent layer on a packed sequence")
    if hx[0].shape[2] != hx[1].shape[2]:
        raise Unhandled("a recurrent layer with projections")
    return run_stack(use, _run, input, hx, params, *options)


class _Tagger(nn.Module):
    """A recurrent layer that uses its outputs and its last states."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        outputs, last = self.layer(x if self.layer.batch_first else x.transpose(0, 1))
        outputs = outputs if self.layer.batch_first else outputs.transpose(0, 1)
        ends = last if isinstance(last, tuple) else (last,)
        return torch.cat([outputs.flatten(1), *(end.transpose(0, 1).flatten(1) for end in ends)], 1)


def recurrent_example(layer: Any, **options: Any) -> Example:
    """Give an example of a recurrent layer."""
    return Example(lambda: _Tagger(layer(3, 4, **options)), lambda rows: (torch.randn(rows, 5, 3),))


RULE = Rule(
    name="lstm",
    functions=(torch.lstm,),
    answer=answer,
    kernels=("ghost", "dense"),
    examples=(
        recurrent_example(nn.LSTM),
        recurrent_example(nn.LSTM, num_layers=2, bidirectional=True, batch_first=True),
        recurrent_example(nn.LSTM, bias=False, batch_first=True),
    ),
)
