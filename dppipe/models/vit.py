"""A vision transformer (Dosovitskiy et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.errors import Problem, SpecError
from dppipe.models.base import Model
from dppipe.models.images import require_image

if TYPE_CHECKING:
    from torch import nn


class Vit(Model, kind="vit"):
    """Patches of an image, blocks of self-attention on them, and an output layer."""

    takes_ids: ClassVar[bool | None] = False

    patch: int = Field(4, gt=0, description="The side of a patch, which divides those of an image.")
    width: int = Field(64, gt=0, description="The width of the embeddings and of every block.")
    heads: int = Field(4, gt=0, description="How many heads attention has; they share the width.")
    layers: int = Field(4, ge=1, description="How many blocks stand on one another.")
    feedforward: int | None = Field(
        None, gt=0, description="The width inside a block; if not stated, 4 times that outside."
    )
    pooling: Literal["class_token", "mean"] = Field(
        "class_token",
        description="What stands for an image: a learned token beside the patches, or their mean.",
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="The chance of each state to be dropped in training."
    )

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(
                f"expected a width that {self.heads} heads can share, got {self.width}. Take "
                f"{self.heads * max(1, round(self.width / self.heads))}."
            )
        return self

    def build(self, input_shape: Sequence[int], outputs: int) -> nn.Module:
        from dppipe.networks.vision import VisionTransformer

        require_image(input_shape)
        channels, height, width = input_shape
        if height % self.patch or width % self.patch:
            shape = " x ".join(map(str, input_shape))
            message = (
                f"expected a side that divides those of the images, {shape}, got {self.patch}."
            )
            raise SpecError([Problem(("model", "patch"), message)])
        return VisionTransformer(
            channels=channels,
            size=(height, width),
            patch=self.patch,
            width=self.width,
            heads=self.heads,
            layers=self.layers,
            feedforward=self.feedforward or 4 * self.width,
            dropout=self.dropout,
            class_token=self.pooling == "class_token",
            outputs=outputs,
        )
