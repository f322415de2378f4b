"""Layers that infer their sizes from their first batch, such as `nn.LazyLinear`.

Their parameters have no shape yet, so they have no layout, and the batch that would fix the shape
is a private one.
"""

from __future__ import annotations

from torch import nn
from torch.nn.parameter import is_lazy

from dppipe.errors import UsageError


def refuse_lazy_layers(model: nn.Module) -> None:
    """Refuse a model with a parameter or a buffer whose shape isn't known yet."""
    for path, module in model.named_modules():
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        if any(is_lazy(tensor) for tensor in own):
            kind = type(module).__name__
            raise UsageError(
                f"model: expected layers whose sizes are known, got {kind} at "
                f"{path or 'its root'!r}. State its number of inputs, as "
                f"{kind.removeprefix('Lazy')} does. Or let the module see one made-up example "
                "first: in Python call module(torch.zeros(1, ...)) before fit, in a spec do so at "
                "the end of the model's own __init__."
            )
