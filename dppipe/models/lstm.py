"""LSTM layers on token ids (Hochreiter and Schmidhuber 1997)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.models.tokens import RecurrentModel

if TYPE_CHECKING:
    from torch import nn


class Lstm(RecurrentModel, kind="lstm"):
    """Embeddings of token ids, LSTM layers, and an output layer."""

    def cell(self) -> type[nn.LSTM]:
        from torch import nn

        return nn.LSTM
