"""A residual network for small images (He et al. 2016a, section 4.2).

Group norms take the place of batch norms, and convolutions that of shortcuts without weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.models.base import Model
from dppipe.models.images import require_image

if TYPE_CHECKING:
    from torch import nn


class Resnet(Model, kind="resnet"):
    """Three stages of blocks with a norm after each convolution; depth 20 is ResNet-20."""

    takes_ids: ClassVar[bool | None] = False

    depth: int = Field(20, ge=8, description="The depth: 6 n + 2 with n blocks a stage.")
    width: int = Field(16, ge=4, description="The channels of the first stage.")
    groups: int = Field(
        8,
        ge=1,
        description="The groups of channels that are normalised together; their greatest common "
        "divisor with the channels counts.",
    )
    standardise: bool = Field(
        True, description="Whether the weights of convolutions are standardised as they are used."
    )

    @model_validator(mode="after")
    def _depth_of_whole_blocks(self) -> Self:
        if (self.depth - 2) % 6:
            below = self.depth - (self.depth - 2) % 6
            raise ValueError(
                f"expected a depth of 6 n + 2, got {self.depth}. Take {below} or {below + 6}."
            )
        return self

    def build(self, input_shape: Sequence[int], outputs: int) -> nn.Module:
        from dppipe.networks.residual import Layers, PostBlock, residual_network

        require_image(input_shape, at_least=4)
        return residual_network(
            Layers(groups=self.groups, standardise=self.standardise),
            PostBlock,
            inputs=input_shape[0],
            stem=self.width,
            width=self.width,
            blocks=(self.depth - 2) // 6,
            outputs=outputs,
        )
