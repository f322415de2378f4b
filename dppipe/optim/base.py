"""What an optimizer kind is: options that build an ordinary torch optimizer, which sees only privatised gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dppipe.component import Component

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer as TorchOptimizer


class Optimizer(Component):
    """An optimizer by its options."""

    def build(self, params: Iterable[nn.Parameter]) -> TorchOptimizer:
        """Build the optimizer of these parameters."""
        raise NotImplementedError
