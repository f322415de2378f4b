"""A forward pass without chance: dropout lets everything through and random draws give their middle.

For comparing two evaluations of one model, on made-up input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

_DROPOUTS = frozenset(
    getattr(home, name)
    for home in (F, torch)
    for name in (
        "dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "alpha_dropout",
        "feature_alpha_dropout",
        "feature_dropout",
    )
    if hasattr(home, name)
)
_RECURRENT = frozenset({torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu})
_MIDDLES: dict[Callable[..., Any], float] = {
    torch.rand: 0.5,
    torch.rand_like: 0.5,
    torch.randn: 0.0,
    torch.randn_like: 0.0,
}


class WithoutChance(TorchFunctionMode):
    """Replaces what torch draws at random by what it is on average."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer a call of a torch function."""
        kwargs = kwargs or {}
        if func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func in _MIDDLES:
            return func(*args, **kwargs).fill_(_MIDDLES[func])
        if func in (torch.bernoulli, Tensor.bernoulli):
            return (args[0] >= 0.5).to(args[0].dtype)
        if func in (Tensor.bernoulli_, Tensor.uniform_):
            return args[0].fill_(0.5)
        if func is F.scaled_dot_product_attention:
            given = dict(
                zip(
                    ("query", "key", "value", "attn_mask", "dropout_p", "is_causal"),
                    args,
                    strict=False,
                )
            )
            kwargs = {**given, **kwargs, "dropout_p": 0.0}
            args = ()
        if func is F.multi_head_attention_forward:
            kwargs = {**kwargs, "training": False}
        if func in _RECURRENT:
            args = (*args[:-4], 0.0, *args[-3:]) if len(args) == 9 else args
        return func(*args, **kwargs)
