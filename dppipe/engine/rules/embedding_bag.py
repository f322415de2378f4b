"""Bags of embeddings with equally many lookups in each row: an embedding, then a sum or a mean."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dppipe.engine.rules.base import Example, Rule, Unhandled, Use


def answer(
    use: Use,
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Answer `F.embedding_bag`."""
    rescales = max_norm is not None or scale_grad_by_freq
    if rescales or input.dim() != 2 or offsets is not None or mode not in ("mean", "sum"):
        raise Unhandled("a bag with offsets, a maximum, max_norm or scale_grad_by_freq")
    looked_up: Tensor = use.call(F.embedding, input, weight)
    if per_sample_weights is None:
        per_sample_weights = torch.ones_like(looked_up[..., 0])
    shares = per_sample_weights.unsqueeze(2)
    if padding_idx is not None:
        shares = shares * (input != padding_idx % len(weight)).unsqueeze(2)
    total = (looked_up * shares).sum(1)
    return total / shares.sum(1).clamp(min=1) if mode == "mean" else total


RULE = Rule(
    name="embedding_bag",
    functions=(F.embedding_bag,),
    answer=answer,
    examples=(
        Example(lambda: nn.EmbeddingBag(6, 3), lambda rows: (torch.randint(0, 6, (rows, 4)),)),
        Example(
            lambda: nn.EmbeddingBag(6, 3, mode="sum", padding_idx=0),
            lambda rows: (torch.randint(0, 6, (rows, 4)),),
        ),
    ),
)
