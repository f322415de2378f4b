"""A transformer encoder on token ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.models.tokens import TokenModel

if TYPE_CHECKING:
    from torch import nn

    from dppipe.input_layout import InputLayout


class Transformer(TokenModel, kind="transformer"):
    """Embeddings of tokens and places, blocks of self-attention, and an output layer.

    Padding is masked: no token attends to it.
    """

    width: int = Field(64, gt=0, description="The width of the embeddings and of every block.")
    heads: int = Field(4, gt=0, description="How many heads attention has; they share the width.")
    layers: int = Field(2, ge=1, description="How many blocks stand on one another.")
    feedforward: int | None = Field(
        None, gt=0, description="The width inside a block; if not stated, 4 times that outside."
    )
    pooling: Literal["mean", "last"] = Field(
        "mean", description="What stands for a text: the mean of its tokens' states, or the last."
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

    def build_for(self, layout: InputLayout, outputs: int) -> nn.Module:
        from dppipe.networks.encoder import Encoder

        return Encoder(
            vocabulary=self.vocabulary_of(layout),
            length=layout.shape[0],
            width=self.width,
            heads=self.heads,
            layers=self.layers,
            feedforward=self.feedforward or 4 * self.width,
            dropout=self.dropout,
            pooling=None if layout.per_token else self.pooling,
            outputs=outputs,
        )
