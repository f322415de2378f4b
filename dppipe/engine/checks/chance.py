"""A forward pass without randomness, to compare two evaluations of one model on made-up input.

Dropout keeps everything, and random draws are replaced by their mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

_DROPOUT_NAMES = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_alpha_dropout",
    "feature_dropout",
)
_DROPOUTS: set[Any] = set()
for _home in (F, torch):
    _DROPOUTS |= {getattr(_home, name) for name in _DROPOUT_NAMES if hasattr(_home, name)}
_RECURRENT = frozenset({torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu})
_MEANS: dict[Callable[..., Any], float] = {
    torch.rand: 0.5,
    torch.rand_like: 0.5,
    torch.randn: 0.0,
    torch.randn_like: 0.0,
}
_ATTENTION_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


class WithoutChance(TorchFunctionMode):
    """Replaces torch's random draws by their mean."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer a call of a torch function."""
        kwargs = kwargs or {}
        if func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func in _MEANS:
            return func(*args, **kwargs).fill_(_MEANS[func])
        if func in (torch.bernoulli, Tensor.bernoulli):
            return (args[0] >= 0.5).to(args[0].dtype)
        if func in (Tensor.bernoulli_, Tensor.uniform_):
            return args[0].fill_(0.5)
        if func is F.scaled_dot_product_attention:
            named = dict(zip(_ATTENTION_ARGUMENTS, args, strict=False))
            kwargs = {**named, **kwargs, "dropout_p": 0.0}
            args = ()
        if func is F.multi_head_attention_forward:
            kwargs = {**kwargs, "training": False}
        if func in _RECURRENT and len(args) == 9:
            args = (*args[:-4], 0.0, *args[-3:])
        return func(*args, **kwargs)
