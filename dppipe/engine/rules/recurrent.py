"""What recurrent layers share: the stack of layers and directions, and the recurrent weight's rule.

The input's projection is one linear layer over all positions. The recurrence itself runs here in a
loop, forward and backward, so that the gradient of every gate at every position is known. The
recurrent weight's gradient is then a sum of outer products with the earlier hidden states.
Read next: `lstm.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dppipe.engine.gradients.forms import Dense
from dppipe.engine.rules.base import Found, Unhandled, Use, rows_first, wide
from dppipe.engine.rules.linear import outer

Receive = Callable[[Tensor, Tensor], None]
"""`receive(earlier hidden states [T, B, H], gradients of the recurrent gates [T, B, gates])`."""
Recurrence = type[torch.autograd.Function]
"""A function of `gates [T, B, gates], *states, weight, bias, receive`.

It returns the hidden states `[T, B, H]`, then the last states `[B, H]`.
"""


def run_stack(
    use: Use,
    recurrence: Recurrence,
    input: Tensor,
    states: Sequence[Tensor],  # [layers * directions, B, H] each
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """Answer a whole recurrent module: all layers, both directions."""
    use.require_axis(0 if batch_first else 1)
    directions = 2 if bidirectional else 1
    count = 4 if has_biases else 2
    if len(params) != num_layers * directions * count:
        raise Unhandled("a recurrent layer with projections")
    # Contiguous, since products would go position by position otherwise.
    values = input.transpose(0, 1).contiguous() if batch_first else input
    last = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            index = layer * directions + direction
            weights = (*params[index * count : (index + 1) * count], None, None)[:4]
            first = [state[index] for state in states]
            output, *ends = _run_layer(
                use, recurrence, values, first, *weights, backwards=direction == 1
            )
            outputs.append(output)
            last.append(ends)
        values = torch.cat(outputs, 2) if bidirectional else outputs[0]
        if layer < num_layers - 1:
            values = F.dropout(values, dropout, train)
    stacked = [torch.stack(ends) for ends in zip(*last, strict=True)]
    return values.transpose(0, 1) if batch_first else values, *stacked


def _run_layer(
    use: Use,
    recurrence: Recurrence,
    values: Tensor,  # [T, B, d]
    states: list[Tensor],
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any,
    bias_hh: Any,
    *,
    backwards: bool,
) -> tuple[Tensor, ...]:
    """Run one layer in one direction."""

    def receive(earlier: Tensor, gates: Tensor) -> None:
        use.collect(_recurrent_gradients(use, weight_hh, bias_hh, earlier, gates))

    gates: Tensor = use.call(F.linear, values, weight_ih, bias_ih)
    gates = use.tap(gates.flip(0) if backwards else gates, (), lambda gradient: ())
    # In the gates' type: autocast doesn't convert what is computed in place.
    weight = weight_hh.detach().to(gates.dtype)
    bias = None if bias_hh is None else bias_hh.detach().to(gates.dtype)
    hidden, *last = recurrence.apply(  # type: ignore[no-untyped-call]
        gates, *states, weight, bias, receive
    )
    return hidden.flip(0) if backwards else hidden, *last


def _recurrent_gradients(
    use: Use, weight: Tensor, bias: Tensor | None, earlier: Tensor, gates: Tensor
) -> Found:
    outputs = rows_first(wide(gates), 1)
    if use.trains(weight):
        yield weight, outer(use, weight, rows_first(wide(earlier), 1), outputs)
    if use.trains(bias):
        yield bias, Dense(outputs.sum(1))
