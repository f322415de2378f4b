"""Multi-head attention: its projections are linear layers; nothing between them has parameters."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dppipe.engine.rules.base import Example, Rule, Unhandled, Use


def answer(
    use: Use,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Answer `F.multi_head_attention_forward`, on inputs `[positions, rows, features]`."""
    extras = (bias_k, bias_v, static_k, static_v)
    if query.dim() != 3 or add_zero_attn or any(extra is not None for extra in extras):
        raise Unhandled("attention without rows, or with bias_k, add_zero_attn or static keys")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    weights = separate if use_separate_proj_weight else in_proj_weight
    projected = _project(use, (query, key, value), weights, in_proj_bias)
    queries, keys, values = [_split(part, num_heads) for part in projected]
    mask = _merge(attn_mask, key_padding_mask, queries)
    drop = dropout_p if training else 0.0
    attention = None
    if need_weights:
        mixed, attention = _attend(queries, keys, values, mask=mask, drop=drop)
        if average_attn_weights:
            attention = attention.mean(1)
    else:
        mixed = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=drop
        )
    flat = mixed.permute(2, 0, 1, 3).flatten(2)
    return use.call(F.linear, flat, out_proj_weight, out_proj_bias), attention


def _project(
    use: Use, inputs: tuple[Tensor, ...], weights: Any, bias: Tensor | None
) -> tuple[Tensor, ...]:
    """Project queries, keys and values; at once if they are one tensor."""
    if isinstance(weights, Tensor) and inputs[0] is inputs[1] is inputs[2]:
        together: Tensor = use.call(F.linear, inputs[0], weights, bias)
        return together.chunk(3, dim=2)
    parts = use.call(Tensor.chunk, weights, 3) if isinstance(weights, Tensor) else weights
    biases = (None, None, None) if bias is None else use.call(Tensor.chunk, bias, 3)
    projections = zip(inputs, parts, biases, strict=True)
    return tuple(use.call(F.linear, *projection) for projection in projections)


def _split(values: Tensor, heads: int) -> Tensor:  # [T, B, E] -> [B, heads, T, E / heads]
    return torch.unflatten(values, 2, (heads, -1)).permute(1, 2, 0, 3)


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, *, mask: Tensor | None, drop: float
) -> tuple[Tensor, Tensor]:  # [B, heads, T or S, E / heads] -> the same, [B, heads, T, S]
    """Return the mixed values and the attention weights, which a fused kernel doesn't return."""
    scores = queries @ keys.transpose(2, 3) / math.sqrt(queries.shape[3])
    if mask is not None:
        scores = scores + mask
    attention = F.dropout(scores.softmax(3), drop)
    return attention @ values, attention


def _merge(
    mask: Tensor | None, padding: Tensor | None, queries: Tensor
) -> Tensor | None:  # -> broadcasts to [B, heads, T, S]
    """Return both masks as one that is added to the scores."""
    merged: Tensor | None = None
    if mask is not None:
        shaped = mask if mask.dim() == 2 else torch.unflatten(mask, 0, queries.shape[:2])
        merged = _additive(shaped, queries.dtype)
    if padding is not None:
        added = _additive(padding[:, None, None, :], queries.dtype)
        merged = added if merged is None else merged + added
    return merged


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask of truth values as numbers that are added to scores; others as they are."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -math.inf)


class _Cross(nn.Module):
    """Attention of one sequence to another, with some positions masked."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, **options)

    def forward(self, queries: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
        padding = padding & (torch.arange(keys.shape[1]) > 0)
        mixed: Tensor = self.attention(queries, keys, keys, key_padding_mask=padding)[0]
        return mixed


class _Self(nn.Module):
    """Attention of a sequence to itself, sequence first: the default of `nn.MultiheadAttention`."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(0, 1)
        causal = torch.full((len(x), len(x)), -math.inf).triu(1)
        mixed: Tensor = self.attention(x, x, x, attn_mask=causal, need_weights=False)[0]
        return mixed.transpose(0, 1)


def _pair(rows: int) -> tuple[Tensor, ...]:
    return torch.randn(rows, 3, 4), torch.randn(rows, 5, 4), torch.rand(rows, 5) < 0.3


RULE = Rule(
    name="attention",
    functions=(F.multi_head_attention_forward,),
    answer=answer,
    examples=(
        Example(_Self, lambda rows: (torch.randn(rows, 3, 4),)),
        Example(lambda: _Cross(batch_first=True), _pair),
        Example(lambda: _Cross(batch_first=True, kdim=4, vdim=4, bias=False), _pair),
    ),
)
