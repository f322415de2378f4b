"""What can't be private is refused before a record is touched: layers that mix records, and state that a forward pass changes.

A gradient is bounded per example only if an example's loss depends on that example alone; and whatever a forward pass writes
into the model is released with it, unnoised.
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
    """Refuse layers that are known to mix the records of a batch or to keep statistics of them, and what can't be looked into."""
    for path, module in model.named_modules():
        place, kind = path or "model", type(module).__name__
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
            raise PrivacyRefusal(
                f"{place}: expected a module whose layers can be seen, got one that torch.compile has compiled. Give the module "
                f"itself: the engine brings its own kernels for what compiling would speed up."
            )
        if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
            raise PrivacyRefusal(
                f"{place}: expected a layer that treats each record alone, got {kind}, which mixes the records of a batch. "
                f"Use GroupNorm({_groups(module.num_features)}, {module.num_features}), or freeze it with eval()."
            )
        if (
            isinstance(module, _InstanceNorm)
            and module.training
            and module.running_mean is not None
        ):
            raise PrivacyRefusal(
                f"{place}: expected a layer without memory of records, got {kind} with running statistics. "
                f"Set track_running_stats=False."
            )


@contextmanager
def refuse_changed_state(model: nn.Module) -> Iterator[None]:
    """Refuse a forward pass that writes into the model's buffers or parameters."""
    before = _state(model)
    yield
    for name, (tensor, version) in _state(model).items():
        if name not in before or before[name][0] is not tensor or before[name][1] != version:
            raise PrivacyRefusal(
                f"{name}: expected state that a forward pass leaves alone, got a change: what records write into the model is "
                f"released without noise. Make it a constant."
            )


def _state(model: nn.Module) -> dict[str, tuple[Tensor, int]]:
    named = [*model.named_buffers(), *model.named_parameters()]
    return {
        name: (tensor, 0 if torch.is_inference(tensor) else tensor._version)
        for name, tensor in named
    }


def _groups(channels: int) -> int:
    """Give the usual number of groups that divides the channels."""
    return max(groups for groups in range(1, min(32, channels) + 1) if channels % groups == 0)
