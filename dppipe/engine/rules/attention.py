"""Multi-head attention: its projections are linear layers, and what stands between them has no parameters."""

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
    if (
        query.dim() != 3
        or any(extra is not None for extra in (bias_k, bias_v, static_k, static_v))
        or add_zero_attn
    ):
        raise Unhandled("attention without rows, or with bias_k, add_zero_attn or static keys")
    weights = (
        (q_proj_weight, k_proj_weight, v_proj_weight)
        if use_separate_proj_weight
        else in_proj_weight
    )
    projected = _project(use, (query, key, value), weights, in_proj_bias)
    queries, keys, values = (_split(part, num_heads) for part in projected)
    mask, drop = _merge(attn_mask, key_padding_mask, queries), dropout_p if training else 0.0
    if need_weights:
        mixed, attention = _attend(queries, keys, values, mask=mask, drop=drop)
    else:
        mixed, attention = (
            F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, dropout_p=drop),
            None,
        )
    output = use.call(
        F.linear, mixed.permute(2, 0, 1, 3).flatten(2), out_proj_weight, out_proj_bias
    )
    return output, attention.mean(
        1
    ) if attention is not None and average_attn_weights else attention


def _project(
    use: Use, inputs: tuple[Tensor, ...], weights: Any, bias: Tensor | None
) -> tuple[Tensor, ...]:
    """Project queries, keys and values, at once where they are one tensor."""
    if isinstance(weights, Tensor) and inputs[0] is inputs[1] is inputs[2]:
        together: Tensor = use.call(F.linear, inputs[0], weights, bias)
        return together.chunk(3, dim=2)
    parts = use.call(Tensor.chunk, weights, 3) if isinstance(weights, Tensor) else weights
    biases = (None, None, None) if bias is None else use.call(Tensor.chunk, bias, 3)
    return tuple(
        use.call(F.linear, *projection) for projection in zip(inputs, parts, biases, strict=True)
    )


def _split(values: Tensor, heads: int) -> Tensor:  # [T, B, E] -> [B, heads, T, E / heads]
    return torch.unflatten(values, 2, (heads, -1)).permute(1, 2, 0, 3)


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, *, mask: Tensor | None, drop: float
) -> tuple[
    Tensor, Tensor
]:  # [B, heads, T or S, E / heads] each -> [B, heads, T, E / heads], [B, heads, T, S]
    """Mix the values, and give the weights that they are mixed with, which a fused kernel keeps to itself."""
    scores = queries @ keys.transpose(2, 3) / math.sqrt(queries.shape[3])
    attention = F.dropout((scores if mask is None else scores + mask).softmax(3), drop)
    return attention @ values, attention


def _merge(
    mask: Tensor | None, padding: Tensor | None, queries: Tensor
) -> Tensor | None:  # -> broadcasts to [B, heads, T, S]
    """Give both masks as one that is added to the scores."""
    parts = []
    if mask is not None:
        parts.append(mask if mask.dim() == 2 else torch.unflatten(mask, 0, queries.shape[:2]))
    if padding is not None:
        parts.append(padding[:, None, None, :])
    added = [
        torch.zeros_like(part, dtype=queries.dtype).masked_fill(part, -math.inf)
        if part.dtype == torch.bool
        else part
        for part in parts
    ]
    return None if not added else sum(added[1:], added[0])


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
    """Attention of a sequence to itself, sequence first as `nn.MultiheadAttention` takes it unless told otherwise."""

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
