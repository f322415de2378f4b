"""What counts as a weight in a forward pass: the trainable parameters, and whatever is computed from parameters alone.

A slice, a transpose, a merged adapter or a normalised weight is still a weight: its gradients, row by row, are pulled back to the
parameters through its own history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """The matrix whose transpose it is, where it is one."""


class Weights:
    """All weights of one forward pass."""

    def __init__(self, constants: Mapping[int, Tensor], parameters: Mapping[str, Tensor]) -> None:
        self.parameters = parameters
        self._constants = constants
        self._known = {id(tensor): Weight(tensor, (name,)) for name, tensor in parameters.items()}

    def among(self, values: Any) -> list[Weight]:
        """Give the weights among a call's arguments."""
        return [
            self._known[id(tensor)] for tensor in tensors_in(values) if id(tensor) in self._known
        ]

    def alone(self, values: Any) -> bool:
        """Whether a call's arguments hold no tensor that could depend on the batch."""
        return all(
            id(tensor) in self._known or id(tensor) in self._constants
            for tensor in tensors_in(values)
        )

    def derive(self, results: Any, sources: list[Weight], *, transposed: bool) -> None:
        """Let the results of a call on weights alone count as weights."""
        names = tuple(dict.fromkeys(name for source in sources for name in source.names))
        for tensor in tensors_in(results):
            if tensor.requires_grad and id(tensor) not in self._known:
                self._known[id(tensor)] = Weight(
                    tensor, names, sources[0].tensor if transposed else None
                )

    def __getitem__(self, tensor: Tensor) -> Weight:
        """Give what is known about a weight."""
        return self._known[id(tensor)]

    def __contains__(self, tensor: Tensor | None) -> bool:
        """Whether a tensor is a weight."""
        return id(tensor) in self._known

    def pull_back(self, weight: Weight, gradients: Gradients) -> Iterator[tuple[str, Gradients]]:
        """Give the gradients of the parameters behind a weight."""
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
        yield from (
            (name, Dense(values))
            for name, values in zip(weight.names, found, strict=True)
            if values is not None
        )


def constants_of(model: nn.Module) -> dict[int, Tensor]:
    """Give what a model holds before a batch comes, by identity: its parameters and buffers."""
    return {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}


def tensors_in(values: Any) -> list[Tensor]:
    """Give the tensors among nested tuples, lists and dictionaries."""
    found: list[Tensor] = []
    for value in (
        values.values()
        if isinstance(values, dict)
        else values
        if isinstance(values, (tuple, list))
        else (values,)
    ):
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list, dict)):
            found += tensors_in(value)
    return found
