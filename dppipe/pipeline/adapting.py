"""From a network as it was built to the one that is trained: public weights, adapters, and what is frozen.

`make_network` does this for every model kind, in that order, so that a file of weights has the names of the plain network.
Nothing here reads a record: patterns and the file are public, and frozen parameters get neither gradient nor noise.
Read next: `dppipe/models/base.py`, which holds the options.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dppipe.engine.tape.lazy_layers import refuse_lazy_layers
from dppipe.errors import UsageError
from dppipe.pipeline.memory import fitting_memory

if TYPE_CHECKING:
    from dppipe.models.base import Lora, Model

_SHOWN = 5
"""How many names a message lists at most."""


class LowRankLinear(nn.Linear):
    """A linear layer with a low-rank adapter beside it: W x + b + (alpha / rank) B A x (Hu et al. 2021, section 4.1).

    `weight` and `bias` are those of the layer whose place it takes, under their own names; `down.weight` is A, `up.weight` is B,
    which starts at zero, so that the network starts as it was.
    """

    def __init__(self, layer: nn.Linear, *, rank: int, alpha: float) -> None:
        # On the meta device nothing is drawn, so the other layers' weights don't depend on which layers have adapters.
        super().__init__(
            layer.in_features, layer.out_features, bias=layer.bias is not None, device="meta"
        )
        self.weight, self.bias = layer.weight, layer.bias
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
        """Add what the adapter gives to what the layer gives."""
        adapted: Tensor = self.up(self.down(input))
        return super().forward(input) + self.scale * adapted


def make_network(
    model: Model, *, input_shape: Sequence[int], outputs: int, load_pretrained: bool = True
) -> nn.Module:
    """Build a model's network and finish it; whoever loads a run's weights afterwards needs no public ones."""
    with fitting_memory("model"):
        network = model.build(input_shape, outputs)
        refuse_lazy_layers(network)
        return finish(network, model, load_pretrained=load_pretrained)


def finish(network: nn.Module, options: Model, *, load_pretrained: bool = True) -> nn.Module:
    """Load public weights into a network, put adapters beside its layers and freeze the rest, as the options say."""
    if options.pretrained is not None and load_pretrained:
        _load_public(network, options.pretrained.path, fresh=options.fresh or ())
    adapters: list[nn.Parameter] = []
    if options.lora is not None:
        network, adapters = _add_adapters(network, options.lora)
    if options.trainable is not None or options.lora is not None:
        _freeze(network, options.trainable or (), kept=adapters)
    return network


def _load_public(network: nn.Module, path: Path, *, fresh: Collection[str]) -> None:
    state = network.state_dict()
    _refuse_idle(fresh, state, key="fresh", what="parameter")
    weights, expected = (
        {n: v for n, v in of.items() if not _matches(n, fresh)} for of in (_read(path), state)
    )
    missing = [name for name in expected if name not in weights]
    unknown = [name for name in weights if name not in expected]
    if missing or unknown:
        parts = [
            f"{what} {_listed(names)}"
            for what, names in (("without", missing), ("with", unknown))
            if names
        ]
        raise UsageError(
            f"model.pretrained: expected the model's own names in {path}, got a file {' and '.join(parts)}."
        )
    misshapen = [
        name
        for name, value in weights.items()
        if value.shape != getattr(expected[name], "shape", None)
    ]
    if misshapen:
        raise UsageError(
            f"model.pretrained: expected the model's own shapes in {path}, got others at {_listed(misshapen)}."
        )
    broken = [name for name, value in weights.items() if not value.isfinite().all()]
    if broken:
        raise UsageError(
            f"model.pretrained: expected finite numbers in {path}, got others at {_listed(broken)}."
        )
    network.load_state_dict(state | weights)


def _read(path: Path) -> Mapping[str, Tensor]:
    """Read tensors by their names; a file that holds anything else is refused, and nothing in it runs."""
    place = f"model.pretrained: expected a file of weights, got {path}"
    if not path.is_file():
        raise UsageError(f"{place}, which isn't there. Mend the path.")
    advice = "Give a .safetensors file, or what torch.save wrote of a state dict."
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            weights = load_file(path)
        else:
            with warnings.catch_warnings(
                action="ignore"
            ):  # what is wrong with a file is said once, below
                weights = torch.load(path, weights_only=True, map_location="cpu")
    except ImportError as error:
        raise UsageError(
            f"{place}, which needs safetensors. Install dppipe[safetensors], or save a state dict."
        ) from error
    except Exception as error:
        raise UsageError(
            f"{place}, which can't be read as one ({type(error).__name__}). {advice}"
        ) from error
    if not isinstance(weights, Mapping) or not all(
        isinstance(value, Tensor) for value in weights.values()
    ):
        raise UsageError(
            f"{place}, which holds something else than tensors by their names. {advice}"
        )
    return weights


def _add_adapters(network: nn.Module, lora: Lora) -> tuple[nn.Module, list[nn.Parameter]]:
    paths, passed = _linear_layers(network)
    for pattern in lora.targets:
        if not _matches_any(pattern, paths) and _matches_any(pattern, passed):
            raise UsageError(
                f"model.lora.targets: expected layers that are called for their outputs, got {pattern!r}: torch's attention and "
                f"encoder layers read the weights of {_listed(passed)} past them. Leave it out, or train them by model.trainable."
            )
    _refuse_idle(lora.targets, paths, key="lora.targets", what="linear layer")
    alpha = lora.alpha if lora.alpha is not None else lora.rank
    # A layer that stands at two places is one layer, and so is the one with its adapter.
    made: dict[nn.Module, LowRankLinear] = {}
    for path, layer in paths.items():
        if layer not in made and _matches(path, lora.targets):
            made[layer] = LowRankLinear(layer, rank=lora.rank, alpha=alpha)
    for module in list(network.modules()):
        for name, child in list(module._modules.items()):
            if child is not None and child in made:
                setattr(module, name, made[child])
    parameters = [
        p for layer in made.values() for p in (*layer.down.parameters(), *layer.up.parameters())
    ]
    return made.get(network, network), parameters


def _linear_layers(network: nn.Module) -> tuple[dict[str, nn.Linear], dict[str, nn.Linear]]:
    """Find the linear layers by their paths: those that can have adapters, and those that can't.

    Torch's encoder layer and attention read the weights of theirs past the layer's own forward, so an adapter would do nothing.
    """
    readers = (nn.TransformerEncoderLayer, nn.MultiheadAttention)
    passed = {
        id(child)
        for module in network.modules()
        if isinstance(module, readers)
        for child in module.children()
    }
    modules = network.named_modules(remove_duplicate=False)
    linear = {path: module for path, module in modules if isinstance(module, nn.Linear)}
    return (
        {
            path: layer
            for path, layer in linear.items()
            if type(layer) is nn.Linear and id(layer) not in passed
        },
        {path: layer for path, layer in linear.items() if id(layer) in passed},
    )


def _freeze(network: nn.Module, patterns: Collection[str], *, kept: Iterable[nn.Parameter]) -> None:
    named = dict(network.named_parameters(remove_duplicate=False))
    _refuse_idle(patterns, named, key="trainable", what="parameter")
    trained = {id(parameter) for parameter in kept} | {
        id(p) for name, p in named.items() if _matches(name, patterns)
    }
    for parameter in named.values():
        parameter.requires_grad_(id(parameter) in trained)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _matches_any(pattern: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


def _refuse_idle(patterns: Iterable[str], names: Collection[str], *, key: str, what: str) -> None:
    for pattern in patterns:
        if not _matches_any(pattern, names):
            known = (
                f"which matches none of {_listed(names)}"
                if names
                else "and the model has none that can be named"
            )
            raise UsageError(
                f"model.{key}: expected patterns that each match some {what}, got {pattern!r}, {known}. Mend it."
            )


def _listed(names: Collection[str]) -> str:
    shown = [repr(name) for name in names][:_SHOWN]
    return ", ".join(shown) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
