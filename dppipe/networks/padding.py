"""Padding of token ids: which places hold tokens, and means over those alone.

A mask is a function of its own row's ids, so no row sees another.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Pooling = Literal["last", "mean"]


def tokens_of(ids: Tensor) -> Tensor:  # [B, T] -> [B, T] of bool
    """Return which places hold a token."""
    return ids != 0


def pooled(states: Tensor, tokens: Tensor, *, how: Pooling) -> Tensor:  # [B, T, d] -> [B, d]
    """Return the mean state of a row's tokens, or its last token's; zeros of a row without any."""
    weights = tokens.to(states.dtype)
    count = weights.sum(1, keepdim=True)
    if how == "mean":
        weights = weights / count.clamp(min=1)
    else:
        places = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        weights = (places == count).to(states.dtype)
    return (states * weights.unsqueeze(2)).sum(1)


def turned_round(states: Tensor, tokens: Tensor) -> Tensor:  # [B, T, d] -> [B, T, d]
    """Return each row's tokens in the opposite order, its padding still behind them."""
    places = torch.arange(tokens.shape[1], device=tokens.device)
    opposite = tokens.sum(1, keepdim=True) - 1 - places
    order = torch.where(opposite >= 0, opposite, places)
    return states.gather(1, order.unsqueeze(2).expand_as(states))
