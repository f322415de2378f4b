"""The layer that predicts by a linear learner's solution: it scales its input before it multiplies.

A linear learner trains the last layer of a network. That layer becomes a `BoundedLinear`, in the
network's own place, so the state dict keeps its names. Read next: `last_layer.py`, which networks
have such a layer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dppipe.learners.linear.row_bounds import (
    Scale,
    bias_coordinate,
    bound_vectors,
    feature_factor,
)


class BoundedLinear(nn.Linear):
    """A linear layer on vectors of bounded norm.

    Guarantee: its output is the solution times the row that `bounded_rows` makes of the same
    vector, up to the precision of its parameters.
    """

    def __init__(
        self, width: int, outputs: int, *, bias: bool, max_norm: float, scale: Scale
    ) -> None:
        super().__init__(width, outputs, bias=bias)
        self.max_norm = max_norm
        self.scale: Scale = scale

    @property
    def row_width(self) -> int:
        """The length of a row: that of a vector, and 1 for a bias."""
        return self.in_features + (self.bias is not None)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the outputs for raw vectors `[..., width]`."""
        scaled = bound_vectors(vectors, max_norm=self.max_norm, scale=self.scale)
        return F.linear(scaled.to(self.weight.dtype), self.weight, self.bias)

    def set_solution(self, solution: Tensor) -> None:  # [outputs, row_width]
        """Take the weights that were learned for bounded rows."""
        factor = feature_factor(bias=self.bias is not None)
        with torch.no_grad():
            self.weight.copy_(solution[:, : self.in_features] * factor)
            if self.bias is not None:
                self.bias.copy_(solution[:, -1] * bias_coordinate(self.max_norm))

    def extra_repr(self) -> str:
        """Return what is shown of the layer."""
        return f"{super().extra_repr()}, max_norm={self.max_norm:g}, scale={self.scale}"
