"""The weights of a forward pass: trainable parameters, and tensors computed from parameters alone.

A slice, a transpose, a merged adapter or a normalised weight is still a weight. Its per-row
gradients are propagated back to the parameters through its own autograd history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dppipe.engine.gradients.forms import Dense, Gradients


@dataclass(frozen=True)
class Weight:
    """A trainable parameter, or a tensor computed from parameters and buffers alone."""

    tensor: Tensor
    names: tuple[str, ...]
    """The parameters it depends on."""
    transposed: Tensor | None = None
    """The matrix whose transpose it is, if it is a transpose."""


class Weights:
    """All weights of one forward pass."""

    def __init__(self, constants: Mapping[int, Tensor], parameters: Mapping[str, Tensor]) -> None:
        self.parameters = parameters
        self._constants = constants
        self._known = {id(tensor): Weight(tensor, (name,)) for name, tensor in parameters.items()}

    def among(self, tensors: Iterable[Tensor]) -> list[Weight]:
        """Return the weights among a call's tensors."""
        known = self._known
        return [known[id(tensor)] for tensor in tensors if id(tensor) in known]

    def alone(self, tensors: Iterable[Tensor]) -> bool:
        """Return whether no tensor of a call can depend on the batch."""
        others = [tensor for tensor in tensors if id(tensor) not in self._known]
        return all(id(tensor) in self._constants for tensor in others)

    def derive(self, results: Any, sources: list[Weight], *, transposed: bool) -> None:
        """Register the results of a call on weights alone as weights."""
        names: dict[str, None] = {}
        for source in sources:
            names |= dict.fromkeys(source.names)
        original = sources[0].tensor if transposed else None
        for tensor in tensors_in(results):
            if tensor.requires_grad and id(tensor) not in self._known:
                self._known[id(tensor)] = Weight(tensor, tuple(names), original)

    def __getitem__(self, tensor: Tensor) -> Weight:
        """Return what is known about a weight."""
        return self._known[id(tensor)]

    def __contains__(self, tensor: Tensor | None) -> bool:
        """Return whether a tensor is a weight."""
        return id(tensor) in self._known

    def pull_back(self, weight: Weight, gradients: Gradients) -> Iterator[tuple[str, Gradients]]:
        """Yield the gradients of the parameters that a weight is computed from."""
        if weight.tensor is self.parameters.get(weight.names[0]):
            yield weight.names[0], gradients
            return
        with torch.enable_grad():
            found = torch.autograd.grad(
                weight.tensor,
                [self.parameters[name] for name in weight.names],
                gradients.dense().to(weight.tensor.dtype),
                is_grads_batched=True,
                retain_graph=True,
                allow_unused=True,
            )
        for name, values in zip(weight.names, found, strict=True):
            if values is not None:
                yield name, Dense(values)


def constants_of(model: nn.Module) -> dict[int, Tensor]:
    """Return a model's parameters and buffers by identity: none of them depends on a batch."""
    return {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}


def tensors_in(values: Any) -> list[Tensor]:
    """Return the tensors in nested tuples, lists and dictionaries."""
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, (tuple, list)):
        values = (values,)
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list, dict)):
            found += tensors_in(value)
    return found
