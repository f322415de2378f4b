"""Bags of embeddings of token ids, for texts whose words matter more than their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.errors import Problem, SpecError
from dppipe.models.base import Activation
from dppipe.models.tokens import TokenModel

if TYPE_CHECKING:
    from torch import nn

    from dppipe.input_layout import InputLayout


class TextBag(TokenModel, kind="text_bag"):
    """Embeddings of a text's tokens, summed; then hidden layers and an output layer.

    Without `embedding` each token has a score for each output, which is a linear model of the
    text. The weights that are looked up are few of many, and the engine computes with those alone.
    """

    embedding: int | None = Field(
        None, gt=0, description="The width of the embeddings; without it the model is linear."
    )
    mode: Literal["mean", "root_mean", "sum"] = Field(
        "mean",
        description="What the sum is divided by: the number of tokens, its root, or nothing.",
    )
    scale: float = Field(
        1.0, gt=0, description="A constant that the sum is multiplied by, like a learning rate."
    )
    hidden: tuple[Annotated[int, Field(gt=0)], ...] = Field(
        (), description="The width of each hidden layer after the embeddings."
    )
    activation: Activation = Field("tanh", description="What follows each hidden layer.")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="The chance of each hidden unit to be dropped in training."
    )

    @model_validator(mode="after")
    def _hidden_beside_embedding(self) -> Self:
        if self.embedding is None and (self.hidden or self.dropout):
            raise ValueError(
                "expected embedding beside hidden and dropout, got none: without it the model is "
                "linear. State the width."
            )
        return self

    def check_layout(self, layout: InputLayout) -> None:
        super().check_layout(layout)
        if layout.per_token:
            message = (
                f"expected a model that predicts for every word, got {self.kind}. Take lstm, gru "
                "or transformer."
            )
            raise SpecError([Problem(("model", "kind"), message)])

    def build_for(self, layout: InputLayout, outputs: int) -> nn.Module:
        from torch import nn

        from dppipe.models.mlp import Mlp
        from dppipe.networks.bag import Bag, LinearBag

        vocabulary = self.vocabulary_of(layout)
        if self.embedding is None:
            return LinearBag(vocabulary, outputs, mode=self.mode, scale=self.scale)
        bag = Bag(vocabulary, self.embedding, mode=self.mode, scale=self.scale)
        head = Mlp(hidden=self.hidden, activation=self.activation, dropout=self.dropout)
        return nn.Sequential(bag, head.build((self.embedding,), outputs))
