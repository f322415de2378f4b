"""From a network as it was built to the one that is trained.

`make_network` loads public weights, adds adapters and freezes the rest, for every model kind and in
that order, so that a file of weights has the names of the plain network. Nothing here reads a
record: patterns and the file are public, and frozen parameters get neither gradient nor noise.
Read next: `dppipe/models/base.py`, which holds the options.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from torch import nn

from dppipe.engine.tape.lazy_layers import refuse_lazy_layers
from dppipe.pipeline.adapters import add_adapters
from dppipe.pipeline.memory import fitting_memory
from dppipe.pipeline.name_patterns import matches, refuse_idle
from dppipe.pipeline.public_weights import load_public

if TYPE_CHECKING:
    from dppipe.input_layout import InputLayout
    from dppipe.models.base import Model


def make_network(
    model: Model, layout: InputLayout, *, outputs: int, load_pretrained: bool = True
) -> nn.Module:
    """Build a model's network for inputs of this layout, and finish it.

    `load_pretrained` is False where a run's own weights are loaded afterwards.
    """
    with fitting_memory("model"):
        network = model.build_for(layout, outputs)
        refuse_lazy_layers(network)
        return finish(network, model, load_pretrained=load_pretrained)


def finish(network: nn.Module, options: Model, *, load_pretrained: bool = True) -> nn.Module:
    """Load public weights into a network, add adapters and freeze the rest, as the options say."""
    if options.pretrained is not None and load_pretrained:
        load_public(network, options.pretrained.path, fresh=options.fresh or ())
    adapters: list[nn.Parameter] = []
    if options.lora is not None:
        network, adapters = add_adapters(network, options.lora)
    if options.trainable is not None or options.lora is not None:
        _freeze(network, options.trainable or (), kept=adapters)
    return network


def _freeze(network: nn.Module, patterns: Collection[str], *, kept: Iterable[nn.Parameter]) -> None:
    """Freeze every parameter but those that match a pattern and those that are kept."""
    named = dict(network.named_parameters(remove_duplicate=False))
    refuse_idle(patterns, named, key="trainable", what="parameter")
    trained = {id(parameter) for parameter in kept}
    for name, parameter in named.items():
        if matches(name, patterns):
            trained.add(id(parameter))
    for parameter in named.values():
        parameter.requires_grad_(id(parameter) in trained)
