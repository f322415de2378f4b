"""A transformer encoder on token ids (Vaswani et al. 2017), with layer norms before each part.

Attention is computed by `F.scaled_dot_product_attention` between ordinary linear layers, so each of
them can have an adapter, and the result is the same in training and in use.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dppipe.networks.padding import Pooling, pooled, tokens_of


class Encoder(nn.Module):
    """Embeddings of tokens and places, blocks, and a linear layer on the pooled states, or each."""

    def __init__(
        self,
        *,
        vocabulary: int,
        length: int,
        width: int,
        heads: int,
        layers: int,
        feedforward: int,
        dropout: float,
        pooling: Pooling | None,
        outputs: int,
    ) -> None:
        """Take `pooling` None to return outputs for every token."""
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.randn(length, width) * 0.02)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(width, heads, feedforward, dropout=dropout) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.pooling = pooling
        self.head = nn.Linear(width, outputs)

    def forward(self, ids: Tensor) -> Tensor:  # [B, T] -> [B, outputs], or [B, T, outputs]
        """Return the outputs of each text, or of each of its tokens."""
        tokens = tokens_of(ids)
        states: Tensor = self.dropout(self.embedding(ids) + self.places)
        visible = visible_places(tokens)
        for block in self.blocks:
            states = block(states, visible)
        states = self.norm(states)
        if self.pooling is None:
            each: Tensor = self.head(states)
            return each
        found: Tensor = self.head(pooled(states, tokens, how=self.pooling))
        return found


def visible_places(tokens: Tensor) -> Tensor:  # [B, T] -> [B, 1, 1, T]
    """Return the places that others attend to: those of tokens.

    Of a text without tokens the first place is one of them, as attention needs one.
    """
    first = torch.arange(tokens.shape[1], device=tokens.device) == 0
    return (tokens | first)[:, None, None, :]


class Block(nn.Module):
    """Self-attention, then two linear layers, each added to what came in."""

    def __init__(self, width: int, heads: int, feedforward: int, *, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, feedforward)
        self.narrow = nn.Linear(feedforward, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, visible: Tensor) -> Tensor:  # [B, T, d] -> [B, T, d]
        """Return the states after this block."""
        states = states + self.dropout(self._attend(self.attention_norm(states), visible))
        wide = F.gelu(self.widen(self.norm(states)))
        found: Tensor = states + self.dropout(self.narrow(wide))
        return found

    def _attend(self, states: Tensor, visible: Tensor) -> Tensor:
        split = self.project(states).unflatten(2, (3, self.heads, -1))  # [B, T, 3, heads, d]
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=visible)
        found: Tensor = self.mix(mixed.transpose(1, 2).flatten(2))
        return found
