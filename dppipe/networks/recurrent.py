"""Recurrent layers on token ids; a second direction reads each text from its own last token."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dppipe.networks.padding import Pooling, pooled, tokens_of, turned_round


class Recurrent(nn.Module):
    """An embedding, LSTM or GRU layers, and a linear layer on the pooled states, or on each."""

    def __init__(
        self,
        cell: type[nn.LSTM | nn.GRU],
        *,
        vocabulary: int,
        embedding: int,
        width: int,
        layers: int,
        bidirectional: bool,
        dropout: float,
        pooling: Pooling | None,
        outputs: int,
    ) -> None:
        """Take `pooling` None to return outputs for every token."""
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.dropout = nn.Dropout(dropout)
        directions = 2 if bidirectional else 1
        sizes = [embedding] + [width * directions] * (layers - 1)
        self.forwards = nn.ModuleList(cell(size, width, batch_first=True) for size in sizes)
        backwards = sizes if bidirectional else []
        self.backwards = nn.ModuleList(cell(size, width, batch_first=True) for size in backwards)
        self.pooling = pooling
        self.head = nn.Linear(width * directions, outputs)

    def forward(self, ids: Tensor) -> Tensor:  # [B, T] -> [B, outputs], or [B, T, outputs]
        """Return the outputs of each text, or of each of its tokens."""
        tokens = tokens_of(ids)
        states: Tensor = self.dropout(self.embedding(ids))
        for number, layer in enumerate(self.forwards):
            below = states
            states, _ = layer(below)
            if self.backwards:
                turned, _ = self.backwards[number](turned_round(below, tokens))
                states = torch.cat([states, turned_round(turned, tokens)], dim=2)
            states = self.dropout(states)
        if self.pooling is None:
            each: Tensor = self.head(states)
            return each
        found: Tensor = self.head(pooled(states, tokens, how=self.pooling))
        return found
