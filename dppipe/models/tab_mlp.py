"""A multi-layer perceptron for tables: embeddings of categories beside numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from dppipe.component import Field
from dppipe.input_layout import InputLayout
from dppipe.models.base import Activation, Model

if TYPE_CHECKING:
    from torch import nn


class TabMlp(Model, kind="tab_mlp"):
    """Embeddings of categories beside numbers, hidden layers and an output layer.

    Take it with `categories: codes` of a table. The width of a column's embeddings follows from the
    public number of its categories. Without codes, with 0/1 inputs for instance, it is an mlp.
    """

    embedding: int = Field(
        16,
        gt=0,
        description="The greatest width of an embedding; a column with fewer than twice as many "
        "categories gets half their number.",
    )
    hidden: tuple[Annotated[int, Field(gt=0)], ...] = Field(
        (64,), description="The width of each hidden layer."
    )
    activation: Activation = Field(
        "tanh", description="What follows each hidden layer; bounded ones suit clipped gradients."
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="The chance of each hidden unit to be dropped in training."
    )

    def build(self, input_shape: Sequence[int], outputs: int) -> nn.Module:
        return self.build_for(InputLayout(tuple(input_shape)), outputs)

    def build_for(self, layout: InputLayout, outputs: int) -> nn.Module:
        from torch import nn

        from dppipe.models.mlp import Mlp
        from dppipe.networks.tabular import Embedded

        if len(layout.shape) != 1 or layout.vocabulary is not None:
            raise self.unsuited(layout, needs="the columns of a table", data="csv or parquet")
        widths = {}
        for place, categories in sorted(layout.category_counts.items()):
            entries = categories + 1  # code 0 stands for none of them
            widths[place] = (entries, min(self.embedding, (entries + 1) // 2))
        head = Mlp(hidden=self.hidden, activation=self.activation, dropout=self.dropout)
        if not widths:
            return head.build(layout.shape, outputs)
        first = Embedded(layout.shape[0], widths)
        return nn.Sequential(first, head.build((first.width,), outputs))
