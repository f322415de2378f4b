"""Which networks a linear learner can train: those whose one trained layer is linear and the last.

All that comes before that layer is a public map from a record to its features: it is frozen, and
each record goes through it alone. Nothing here reads a record: networks are tried on made-up ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dppipe.errors import UsageError
from dppipe.learners.linear.bounded_linear import BoundedLinear
from dppipe.learners.linear.row_bounds import Scale

if TYPE_CHECKING:
    from dppipe.privacy.release import PublicFacts

_WAY_OUT = "Take model: {kind: logistic}, or name the last layer alone in model.trainable."
_MADE_UP_ROWS = 4
_MADE_UP_SEED = 2**31 - 5


def bound_last_layer(
    network: nn.Module, facts: PublicFacts, *, learner: str, max_norm: float, scale: Scale
) -> nn.Module:
    """Return a network whose last layer is replaced by one that bounds its input; or refuse it.

    Args:
        network: The spec's network, with all but its last layer frozen.
        facts: The shape of an input and the number of outputs.
        learner: The learner's kind, for messages.
        max_norm: The bound on the features' norm.
        scale: How features are brought to the bound.
    """
    name, layer = _trained_layer(network, learner=learner)
    _refuse_elsewhere(network, name, layer, facts, learner=learner)
    bounded = BoundedLinear(
        layer.in_features,
        layer.out_features,
        bias=layer.bias is not None,
        max_norm=max_norm,
        scale=scale,
    ).to(layer.weight)
    bounded.load_state_dict(layer.state_dict())
    if not name:
        return bounded
    parent, _, child = name.rpartition(".")
    setattr(network.get_submodule(parent), child, bounded)
    return network


def bounded_layer(network: nn.Module) -> BoundedLinear:
    """Return the layer of a network that a linear learner trains."""
    for layer in network.modules():
        if isinstance(layer, BoundedLinear):
            return layer
    raise UsageError("model: expected a network with a bounded last layer, got none.")


def made_up_inputs(facts: PublicFacts) -> Tensor:  # -> [rows, *input_shape]
    """Return a few made-up inputs, the same ones at each call."""
    generator = torch.Generator().manual_seed(_MADE_UP_SEED)
    return torch.randn(_MADE_UP_ROWS, *facts.input_shape, generator=generator)


@contextmanager
def seeing_inputs(layer: nn.Module) -> Iterator[list[Tensor]]:
    """Collect what a layer is called with during a block."""
    seen: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    try:
        yield seen
    finally:
        hook.remove()


def _trained_layer(network: nn.Module, *, learner: str) -> tuple[str, nn.Linear]:
    trained = [name for name, value in network.named_parameters() if value.requires_grad]
    names = sorted({name.rpartition(".")[0] for name in trained})
    if len(names) != 1:
        raise UsageError(
            f"model.trainable: expected exactly one linear layer to train, the last one, with "
            f"learner {learner!r}, got {len(names)} layers. {_WAY_OUT}"
        )
    layer = network.get_submodule(names[0])
    if type(layer) is not nn.Linear or len(trained) != len(list(layer.parameters())):
        raise UsageError(
            f"model.trainable: expected a whole nn.Linear to train with learner {learner!r}, got "
            f"{', '.join(trained)} of a {type(layer).__name__}. {_WAY_OUT}"
        )
    return names[0], layer


def _refuse_elsewhere(
    network: nn.Module, name: str, layer: nn.Linear, facts: PublicFacts, *, learner: str
) -> None:
    """Refuse a network whose trained layer isn't the last: tried on made-up inputs."""
    was_training = network.training
    inputs = made_up_inputs(facts).to(layer.weight.dtype)
    with torch.no_grad(), seeing_inputs(layer) as seen:
        output = network.eval()(inputs)
        calls = len(seen)
        is_last = calls == 1 and seen[0].shape == (len(inputs), layer.in_features)
        is_last = is_last and isinstance(output, Tensor) and torch.equal(output, layer(seen[0]))
    network.train(was_training)
    if not is_last or layer.out_features != facts.outputs:
        raise UsageError(
            f"model.trainable: expected the network's last layer, with {facts.outputs} outputs, "
            f"which learner {learner!r} trains, got {name or 'the network'!r}, whose output isn't "
            f"the network's. {_WAY_OUT}"
        )
