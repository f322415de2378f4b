"""A wide residual network (Zagoruyko and Komodakis 2016) for training with clipped gradients.

Group norms and standardised weights take the place of batch norms, as in De et al. 2022.
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


class WideResnet(Model, kind="wide_resnet"):
    """Three stages of blocks, a norm before each convolution; depth 16 and widen 4 are WRN-16-4."""

    takes_ids: ClassVar[bool | None] = False

    depth: int = Field(16, ge=10, description="The depth: 6 n + 4 with n blocks a stage.")
    widen: int = Field(4, ge=1, description="The channels of the first stage over 16.")
    groups: int = Field(
        16,
        ge=1,
        description="The groups of channels that are normalised together; their greatest common "
        "divisor with the channels counts.",
    )
    standardise: bool = Field(
        True, description="Whether the weights of convolutions are standardised as they are used."
    )

    @model_validator(mode="after")
    def _depth_of_whole_blocks(self) -> Self:
        if (self.depth - 4) % 6:
            below = self.depth - (self.depth - 4) % 6
            raise ValueError(
                f"expected a depth of 6 n + 4, got {self.depth}. Take {below} or {below + 6}."
            )
        return self

    def build(self, input_shape: Sequence[int], outputs: int) -> nn.Module:
        from dppipe.networks.residual import Layers, PreBlock, residual_network

        require_image(input_shape, at_least=4)
        return residual_network(
            Layers(groups=self.groups, standardise=self.standardise),
            PreBlock,
            inputs=input_shape[0],
            stem=16,
            width=16 * self.widen,
            blocks=(self.depth - 4) // 6,
            outputs=outputs,
        )
