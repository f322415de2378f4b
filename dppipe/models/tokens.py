"""What models of token ids share: they are built from the number of ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from dppipe.component import Field
from dppipe.input_layout import InputLayout
from dppipe.models.base import Model

if TYPE_CHECKING:
    from torch import nn


class TokenModel(Model):
    """A model whose inputs are token ids `[tokens]`, filled up with 0."""

    takes_ids: ClassVar[bool | None] = True

    def vocabulary_of(self, layout: InputLayout) -> int:
        """Return the number of ids; refuse inputs that aren't ids."""
        self.check_layout(layout)
        if layout.vocabulary is None or len(layout.shape) != 1:
            raise self.unsuited(layout, needs="token ids", data="data of kind text")
        return layout.vocabulary

    def build(self, input_shape: Sequence[int], outputs: int) -> nn.Module:
        """Refuse a shape alone: the number of ids isn't known."""
        return self.build_for(InputLayout(tuple(input_shape)), outputs)


class RecurrentModel(TokenModel):
    """What `lstm` and `gru` share."""

    embedding: int = Field(64, gt=0, description="The width of the embeddings.")
    width: int = Field(64, gt=0, description="The width of each layer's state in a direction.")
    layers: int = Field(1, ge=1, description="How many layers stand on one another.")
    bidirectional: bool = Field(
        False, description="Whether a text is also read from its last token to its first."
    )
    pooling: Literal["mean", "last"] = Field(
        "mean", description="What stands for a text: the mean of its tokens' states, or the last."
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="The chance of each state to be dropped in training."
    )

    def cell(self) -> type[nn.LSTM | nn.GRU]:
        """Return torch's layer."""
        raise self.unwritten("cell()")

    def build_for(self, layout: InputLayout, outputs: int) -> nn.Module:
        from dppipe.networks.recurrent import Recurrent

        return Recurrent(
            self.cell(),
            vocabulary=self.vocabulary_of(layout),
            embedding=self.embedding,
            width=self.width,
            layers=self.layers,
            bidirectional=self.bidirectional,
            dropout=self.dropout,
            pooling=None if layout.per_token else self.pooling,
            outputs=outputs,
        )
