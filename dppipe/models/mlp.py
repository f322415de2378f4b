"""A multi-layer perceptron on the flattened input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar

from dppipe.component import Field
from dppipe.models.base import Activation, Model, make_activation

if TYPE_CHECKING:
    from torch import nn


class Mlp(Model, kind="mlp"):
    """Hidden linear layers, each followed by an activation and dropout, and an output layer."""

    takes_ids: ClassVar[bool | None] = False

    hidden: tuple[Annotated[int, Field(gt=0)], ...] = Field(
        (128,), description="The width of each hidden layer."
    )
    activation: Activation = Field(
        "tanh", description="What follows each hidden layer; bounded ones suit clipped gradients."
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="The chance of each hidden unit to be dropped in training."
    )

    def build(self, input_shape: Sequence[int], outputs: int) -> nn.Module:
        from torch import nn

        layers: list[nn.Module] = [nn.Flatten()]
        widths = (math.prod(input_shape), *self.hidden)
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), make_activation(self.activation)]
            if self.dropout:
                layers.append(nn.Dropout(self.dropout))
        return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))
