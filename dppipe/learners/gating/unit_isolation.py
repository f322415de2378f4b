"""What a plugin's function does while it sees records is undone, but for the value it returns.

A function that trains or evaluates the module would otherwise leave unnoised numbers in it: batch
statistics, gradients, weights. This guards against mistakes: what a function keeps in a variable of
its own isn't found.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor, nn


@contextmanager
def restoring(module: nn.Module) -> Iterator[None]:
    """Undo what a plugin's functions do to a module during a block.

    Guarantee: when the block is left, the module's tensors, their gradients and torch's generator
    are as they were.
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
    """The tensors of one layer, without those of layers inside it."""

    layer: nn.Module
    training: bool
    parameters: dict[str, nn.Parameter | None]
    buffers: dict[str, Tensor | None]
    values: list[tuple[Tensor, Tensor, Tensor | None]]
    """Each tensor with a copy of its numbers, and with its gradient."""

    @classmethod
    def of(cls, layer: nn.Module) -> _LayerState:
        parameters = dict(layer._parameters)
        buffers = dict(layer._buffers)
        values = []
        for tensor in (*parameters.values(), *buffers.values()):
            if tensor is not None:
                gradient = None if tensor.grad is None else tensor.grad.clone()
                values.append((tensor, tensor.detach().clone(), gradient))
        return cls(layer, layer.training, parameters, buffers, values)

    def restore(self) -> None:
        self.layer.training = self.training
        self.layer._parameters.clear()
        self.layer._parameters.update(self.parameters)
        self.layer._buffers.clear()
        self.layer._buffers.update(self.buffers)
        for tensor, numbers, gradient in self.values:
            tensor.data = numbers
            tensor.grad = gradient
