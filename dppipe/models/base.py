"""What a model kind is: options that build an ordinary `torch.nn.Module`, which nothing wraps afterwards.

Nothing here may mix the examples of a batch: batch normalisation would void the guarantee, and the engine refuses it.
Read next: `logistic.py`, then `mlp.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from dppipe.component import Component

if TYPE_CHECKING:
    from torch import nn

Activation = Literal["elu", "gelu", "relu", "silu", "tanh"]


class Model(Component):
    """A network by its options."""

    def build(self, input_shape: Sequence[int], outputs: int) -> nn.Module:
        """Build the module for inputs of this shape (without the batch dimension) and this many outputs."""
        raise NotImplementedError


def make_activation(name: Activation) -> nn.Module:
    """Make the layer of this name."""
    from torch import nn

    makers: dict[Activation, type[nn.Module]] = {
        "elu": nn.ELU,
        "gelu": nn.GELU,
        "relu": nn.ReLU,
        "silu": nn.SiLU,
        "tanh": nn.Tanh,
    }
    return makers[name]()
