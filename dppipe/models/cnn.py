"""The small convolutional network of Papernot et al. 2021 (tempered sigmoids).

The form is that of Tramèr and Boneh 2021: two convolutions (8 x 8 and 4 x 4, stride 2), each
followed by an activation and a 2 x 2 max pooling with stride 1, then two linear layers. With its
defaults on 28 x 28 pixels and ten classes it has 26,010 parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from dppipe.component import Field
from dppipe.errors import Problem, SpecError
from dppipe.models.base import Activation, Model, make_activation

if TYPE_CHECKING:
    from torch import nn

_SMALLEST = 16
"""The least height and width that leave a pixel after both convolutions and poolings."""


class Cnn(Model, kind="cnn"):
    """Two convolutions and two linear layers for images."""

    takes_ids: ClassVar[bool | None] = False

    channels: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]] = Field(
        (16, 32), description="Output channels of the two convolutions."
    )
    hidden: int = Field(32, gt=0, description="The width of the hidden linear layer.")
    activation: Activation = Field(
        "tanh", description="What follows each hidden layer; bounded ones suit clipped gradients."
    )

    def build(self, input_shape: Sequence[int], outputs: int) -> nn.Module:
        from torch import nn

        if len(input_shape) != 3 or min(input_shape[1:]) < _SMALLEST:
            shape = " x ".join(map(str, input_shape))
            message = (
                "cnn: expected inputs of channels x height x width, "
                f"at least {_SMALLEST} high and wide, got {shape}. Use an mlp."
            )
            raise SpecError([Problem(("model", "kind"), message)])
        first, second = self.channels
        height, width = map(_size_after, input_shape[1:])
        return nn.Sequential(
            nn.Conv2d(input_shape[0], first, kernel_size=8, stride=2, padding=2),
            make_activation(self.activation),
            nn.MaxPool2d(2, stride=1),
            nn.Conv2d(first, second, kernel_size=4, stride=2),
            make_activation(self.activation),
            nn.MaxPool2d(2, stride=1),
            nn.Flatten(),
            nn.Linear(second * height * width, self.hidden),
            make_activation(self.activation),
            nn.Linear(self.hidden, outputs),
        )


def _size_after(size: int) -> int:
    """Return the height or width after both convolutions and poolings."""
    first = (size + 2 * 2 - 8) // 2 + 1 - 1
    return (first - 4) // 2 + 1 - 1
