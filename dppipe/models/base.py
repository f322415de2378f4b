"""What a model kind is: options that build an ordinary `torch.nn.Module`, which nothing wraps afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppipe.component import Component

if TYPE_CHECKING:
    from torch import nn


class Model(Component):
    """A network by its options."""

    def build(self, input_shape: Sequence[int], outputs: int) -> nn.Module:
        """Build the module for inputs of this shape (without the batch dimension) and this many outputs."""
        raise NotImplementedError
