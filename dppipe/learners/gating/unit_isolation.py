"""What a plugin's function does while it sees records is undone, but for the value it returns.

A function that trains or evaluates the module would otherwise leave unnoised numbers in it: batch
statistics, gradients, weights. This guards against mistakes: what a function keeps in a variable of
its own isn't found.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor, nn


@contextmanager
def restoring(module: nn.Module) -> Iterator[None]:
    """Undo what a plugin's functions do to a module during a block.

    Guarantee: when the block is left, the module's layers, tensors, gradients and attributes are as
    they were, and so are torch's generator, and the lists, sets and dictionaries that the
    attributes hold directly. What lies deeper in other objects isn't looked at.
    """
    before = [_LayerState.of(layer) for layer in module.modules()]
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for state in before:
            state.restore()


@dataclass(frozen=True)
class _LayerState:
    """What one layer holds, without the tensors of layers inside it."""

    layer: nn.Module
    attributes: dict[str, Any]
    """All attributes, torch's own among them: parameters, buffers, layers, hooks and the mode."""
    contents: list[tuple[Any, Any]]
    """Each dictionary, list or set among the attributes, with a copy of it."""
    values: list[tuple[Tensor, Tensor, bool, Tensor | None]]
    """Each tensor with a copy of its numbers, whether it is trained, and its gradient."""

    @classmethod
    def of(cls, layer: nn.Module) -> _LayerState:
        attributes = dict(vars(layer))
        contents = []
        for held in attributes.values():
            if isinstance(held, (dict, list, set)):
                contents.append((held, copy.copy(held)))
        values = []
        for tensor in (*layer._parameters.values(), *layer._buffers.values()):
            if tensor is not None:
                gradient = None if tensor.grad is None else tensor.grad.clone()
                values.append((tensor, tensor.detach().clone(), tensor.requires_grad, gradient))
        return cls(layer, attributes, contents, values)

    def restore(self) -> None:
        vars(self.layer).clear()
        vars(self.layer).update(self.attributes)
        for held, kept in self.contents:
            held.clear()
            if isinstance(held, list):
                held.extend(kept)
            else:
                held.update(kept)
        for tensor, numbers, trained, gradient in self.values:
            tensor.data = numbers
            tensor.requires_grad_(trained)
            tensor.grad = gradient
