"""Logistic regression: one linear layer on the flattened input.

For a regression task it is linear regression.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from dppipe.component import Field
from dppipe.models.base import Model

if TYPE_CHECKING:
    from torch import nn


class Logistic(Model, kind="logistic"):
    """One linear layer."""

    takes_ids: ClassVar[bool | None] = False

    bias: bool = Field(True, description="Whether each output has a constant of its own.")

    def build(self, input_shape: Sequence[int], outputs: int) -> nn.Module:
        from torch import nn

        return nn.Sequential(
            nn.Flatten(), nn.Linear(math.prod(input_shape), outputs, bias=self.bias)
        )
