"""The exact attack: a division recovers a record from the gradient of a first linear layer.

With h = W x + b, the gradients of row i are dL/dW_i = (dL/dh_i) x and dL/db_i = dL/dh_i. So
x = (dL/dW_i) / (dL/db_i) for every row whose bias has a gradient (Geiping et al. 2020). Any factor
on the whole gradient cancels: clipping hides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dppipe.audit.attacks.gradients.knowledge import Gradient, Knowledge, Recovered


@dataclass(frozen=True)
class Ends:
    """The linear layers at both ends of a model, by the names of their parameters."""

    first_weight: str | None
    """The weight of the layer that gets the whole input; None where there is none with a bias."""
    first_bias: str | None
    last_bias: str | None
    """The bias of the layer whose output is the model's; None where there is none."""


class _Call(NamedTuple):
    """One use of a linear layer."""

    layer: nn.Linear
    inputs: Tensor
    output: Tensor


def find_ends(known: Knowledge, *, target: Tensor) -> Ends:
    """Find the linear layers at both ends by what goes through them, on a made-up input.

    Args:
        known: The model and its loss.
        target: `[1, ...]`: any target that the loss takes.
    """
    probe = known.start(torch.Generator().manual_seed(0))
    calls: list[_Call] = []
    answers: list[Any] = []

    def note_call(layer: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(layer, nn.Linear):
            calls.append(_Call(layer, inputs[0].detach(), output.detach()))

    def note_answer(model: nn.Module, inputs: Any, output: Any) -> None:
        answers.append(output)

    layers = [layer for layer in known.model.modules() if isinstance(layer, nn.Linear)]
    hooks = [layer.register_forward_hook(note_call) for layer in layers]
    hooks.append(known.model.register_forward_hook(note_answer))
    try:
        with torch.no_grad():
            known.loss(known.model, (probe, target))
    finally:
        for hook in hooks:
            hook.remove()
    first = _first_layer(calls, probe)
    last = _last_layer(calls, answers)
    names: dict[Tensor, str] = {
        parameter: name for name, parameter in known.model.named_parameters()
    }
    return Ends(
        None if first is None else names.get(first.weight),
        None if first is None else names.get(first.bias),
        None if last is None else names.get(last.bias),
    )


def recover_exactly(known: Knowledge, gradient: Gradient, ends: Ends) -> Recovered | None:
    """Return the record by one division; None where no first layer or no gradient allows it.

    Of a sum over several records it is a weighted mean of them.
    """
    if ends.first_weight is None or ends.first_bias is None:
        return None
    weight = gradient[ends.first_weight]  # [rows, inputs]
    bias = gradient[ends.first_bias]  # [rows]
    row = int(bias.abs().argmax())
    if not bool(bias[row]):
        return None
    found = (weight[row].double() / bias[row].double()).to(weight.dtype)
    record = known.held(found.reshape(known.input_shape))
    return Recovered(record, recover_target(known, gradient, ends))


def recover_target(known: Knowledge, gradient: Gradient, ends: Ends) -> Tensor | None:  # -> [1]
    """Return the class of a record by the gradient of the last bias; None where it can't be told.

    With cross-entropy this gradient is p - (1 at the class): only the class has a negative entry.
    With the logistic loss it is p - y, negative for class 1.
    """
    if known.known_target is not None:
        return known.known_target
    if ends.last_bias is None or known.task == "regression":
        return None
    bias = gradient[ends.last_bias]
    if known.task == "binary":
        return (bias.flatten()[:1] < 0).to(bias.dtype)
    return bias.argmin().reshape(1)


def _first_layer(calls: list[_Call], probe: Tensor) -> nn.Linear | None:
    """Return the layer with a bias whose input is the whole record."""
    for call in calls:
        layer = call.layer
        is_whole = torch.equal(call.inputs.flatten(), probe.flatten())
        if is_whole and layer.in_features == probe.numel() and _trains(layer):
            return layer
    return None


def _last_layer(calls: list[_Call], answers: list[Any]) -> nn.Linear | None:
    """Return the layer with a bias whose output is the model's."""
    answer = answers[-1] if answers else None
    if not calls or not isinstance(answer, Tensor):
        return None
    last = calls[-1]
    is_answer = torch.equal(last.output.flatten(), answer.flatten())
    return last.layer if is_answer and _trains(last.layer) else None


def _trains(layer: nn.Linear) -> bool:
    has_bias = layer.bias is not None
    return has_bias and layer.weight.requires_grad and layer.bias.requires_grad
