"""Refusals before a record is read: layers that mix records, state that a forward pass changes.

A gradient is bounded per example only if an example's loss depends on that example alone. And
whatever a forward pass writes into the model is released with it, without noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from dppipe.errors import PrivacyRefusal


def refuse_mixing_layers(model: nn.Module) -> None:
    """Refuse layers that mix the records of a batch or keep statistics of them.

    Compiled modules are refused too, as their layers can't be inspected.
    """
    for path, module in model.named_modules():
        place = path or "model"
        kind = type(module).__name__
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
            raise PrivacyRefusal(
                f"{place}: expected a module whose layers can be seen, got one that torch.compile "
                "has compiled. Give the module itself: the engine brings its own kernels for what "
                "compiling would speed up."
            )
        if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
            channels = module.num_features
            raise PrivacyRefusal(
                f"{place}: expected a layer that treats each record alone, got {kind}, which mixes "
                f"the records of a batch. Use GroupNorm({_groups(channels)}, {channels}), or "
                "freeze it with eval()."
            )
        tracks = isinstance(module, _InstanceNorm) and module.running_mean is not None
        if tracks and module.training:
            raise PrivacyRefusal(
                f"{place}: expected a layer without memory of records, got {kind} with running "
                "statistics. Set track_running_stats=False."
            )


@contextmanager
def refuse_changed_state(model: nn.Module) -> Iterator[None]:
    """Refuse a forward pass that writes into the model's buffers or parameters."""
    before = _state(model)
    yield
    for name, (tensor, version) in _state(model).items():
        if name not in before or before[name][0] is not tensor or before[name][1] != version:
            raise PrivacyRefusal(
                f"{name}: expected state that a forward pass leaves alone, got a change: what "
                "records write into the model is released without noise. Make it a constant."
            )


def _state(model: nn.Module) -> dict[str, tuple[Tensor, int]]:
    """Return each buffer and parameter with torch's count of its changes."""
    state = {}
    for name, tensor in [*model.named_buffers(), *model.named_parameters()]:
        version = 0 if torch.is_inference(tensor) else tensor._version
        state[name] = (tensor, version)
    return state


def _groups(channels: int) -> int:
    """Return the usual number of groups: the largest up to 32 that divides the channels."""
    return max(groups for groups in range(1, min(32, channels) + 1) if channels % groups == 0)
