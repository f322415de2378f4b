"""Bags of embeddings: the tokens of a text without their order."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from dppipe.networks.padding import tokens_of

Mode = Literal["mean", "root_mean", "sum"]


class Bag(nn.Module):
    """The sum of a text's embeddings, scaled by a function of how many there are.

    The embedding's row of padding is looked up but never counts: noise moves it too.
    """

    def __init__(self, vocabulary: int, width: int, *, mode: Mode, scale: float = 1.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.mode = mode
        self.scale = scale

    def forward(self, ids: Tensor) -> Tensor:  # [B, T] -> [B, width]
        """Return the text's vector."""
        found: Tensor = self.embedding(ids)
        weights = tokens_of(ids).to(found.dtype)
        count = weights.sum(1, keepdim=True).clamp(min=1)
        if self.mode == "mean":
            weights = weights / count
        elif self.mode == "root_mean":
            weights = weights / count.sqrt()
        return (found * weights.unsqueeze(2)).sum(1) * self.scale


class LinearBag(Bag):
    """A linear model of a bag: every token has a score for each output; it starts near zero."""

    def __init__(self, vocabulary: int, outputs: int, *, mode: Mode, scale: float = 1.0) -> None:
        super().__init__(vocabulary, outputs, mode=mode, scale=scale)
        nn.init.normal_(self.embedding.weight, std=1e-3)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, ids: Tensor) -> Tensor:  # [B, T] -> [B, outputs]
        """Return the text's scores."""
        return super().forward(ids) + self.bias
