"""Low-rank adapters beside the linear layers of a network (Hu et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from dppipe.errors import UsageError
from dppipe.pipeline.name_patterns import listed, matches, matches_any, refuse_idle

if TYPE_CHECKING:
    from dppipe.models.base import Lora

_WEIGHT_READERS = (nn.TransformerEncoderLayer, nn.MultiheadAttention)
"""Layers that read the weights of their linear layers without calling them.

An adapter beside such a linear layer would do nothing.
"""


class LowRankLinear(nn.Linear):
    """A linear layer with a low-rank adapter: W x + b + (alpha / rank) B A x (section 4.1).

    `weight` and `bias` are those of the layer that it replaces, under their own names.
    `down.weight` is A. `up.weight` is B, which starts at zero, so that the outputs don't change.
    """

    def __init__(self, layer: nn.Linear, *, rank: int, alpha: float) -> None:
        # On the meta device nothing is drawn, so the other layers' weights don't depend on which
        # layers have adapters.
        super().__init__(
            layer.in_features, layer.out_features, bias=layer.bias is not None, device="meta"
        )
        self.weight = layer.weight
        self.bias = layer.bias
        like: dict[str, Any] = {
            "bias": False,
            "device": layer.weight.device,
            "dtype": layer.weight.dtype,
        }
        self.down = nn.Linear(layer.in_features, rank, **like)
        self.up = nn.Linear(rank, layer.out_features, **like)
        nn.init.zeros_(self.up.weight)
        self.scale = alpha / rank

    def forward(self, input: Tensor) -> Tensor:
        """Return the layer's output plus the adapter's."""
        adapted: Tensor = self.up(self.down(input))
        return super().forward(input) + self.scale * adapted


def add_adapters(network: nn.Module, lora: Lora) -> tuple[nn.Module, list[nn.Parameter]]:
    """Put adapters beside the targeted layers; return the network and the adapters' parameters."""
    layers, unreachable = _linear_layers(network)
    _refuse_targets(lora, layers, unreachable)
    alpha = lora.alpha if lora.alpha is not None else lora.rank
    # A layer that is used in two places is one layer, and so is the one with its adapter.
    made: dict[nn.Module, LowRankLinear] = {}
    for path, layer in layers.items():
        if layer not in made and matches(path, lora.targets):
            made[layer] = LowRankLinear(layer, rank=lora.rank, alpha=alpha)
    for module in list(network.modules()):
        for name, child in list(module._modules.items()):
            if child is not None and child in made:
                setattr(module, name, made[child])
    parameters: list[nn.Parameter] = []
    for adapted in made.values():
        parameters += adapted.down.parameters()
        parameters += adapted.up.parameters()
    return made.get(network, network), parameters


def _refuse_targets(
    lora: Lora, layers: Mapping[str, nn.Linear], unreachable: Mapping[str, nn.Linear]
) -> None:
    for pattern in lora.targets:
        if not matches_any(pattern, layers) and matches_any(pattern, unreachable):
            raise UsageError(
                "model.lora.targets: expected layers that are called for their outputs, got "
                f"{pattern!r}: torch's attention and encoder layers read the weights of "
                f"{listed(unreachable)} past them. Leave it out, or train them by model.trainable."
            )
    refuse_idle(lora.targets, layers, key="lora.targets", what="linear layer")


def _linear_layers(network: nn.Module) -> tuple[dict[str, nn.Linear], dict[str, nn.Linear]]:
    """Return the linear layers by their paths: those that can have adapters, those that can't."""
    read_directly: set[nn.Module] = set()
    for module in network.modules():
        if isinstance(module, _WEIGHT_READERS):
            read_directly.update(module.children())
    reachable: dict[str, nn.Linear] = {}
    unreachable: dict[str, nn.Linear] = {}
    for path, module in network.named_modules(remove_duplicate=False):
        if not isinstance(module, nn.Linear):
            continue
        if module in read_directly:
            unreachable[path] = module
        elif type(module) is nn.Linear:
            reachable[path] = module
    return reachable, unreachable
