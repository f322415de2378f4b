"""What a plugin's function does to its module is undone: layers, tensors, attributes and hooks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from dppipe.learners.gating.unit_isolation import restoring


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("count", torch.zeros(()))
        self.losses = [1.0]
        self.best = {"loss": 1.0}
        self.scale = 3.0


def state(module: nn.Module) -> object:
    tensors = {name: value.tolist() for name, value in module.state_dict().items()}
    trained = [parameter.requires_grad for parameter in module.parameters()]
    gradients = [parameter.grad for parameter in module.parameters()]
    own = (module.losses, module.best, module.scale, hasattr(module, "late"))
    layers = [(name, part.training) for name, part in module.named_modules()]
    hooks = len(module.layer._forward_hooks)
    return repr((tensors, trained, gradients, own, layers, hooks))


CHANGES: dict[str, Callable[[Net], object]] = {
    "a new layer": lambda net: net.add_module("extra", nn.Linear(1, 1)),
    "another layer in place of one": lambda net: setattr(net, "layer", nn.Linear(2, 2)),
    "a removed layer": lambda net: delattr(net, "layer"),
    "a new buffer": lambda net: net.register_buffer("more", torch.ones(2)),
    "numbers in a buffer": lambda net: net.count.add_(7),
    "numbers in a weight": lambda net: net.layer.weight.data.add_(1),
    "a gradient": lambda net: setattr(net.layer.weight, "grad", torch.ones(2, 2)),
    "a frozen weight": lambda net: net.layer.weight.requires_grad_(False),
    "the mode": lambda net: net.eval(),
    "a new attribute": lambda net: setattr(net, "late", 1.0),
    "another value of an attribute": lambda net: setattr(net, "scale", 4.0),
    "a longer list": lambda net: net.losses.append(2.0),
    "an entry of a dictionary": lambda net: net.best.update(loss=0.0),
    "a hook": lambda net: net.layer.register_forward_hook(lambda *args: None),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_module_is_undone(change: str) -> None:
    net = Net()
    layer = net.layer
    losses = net.losses
    before = state(net)
    with restoring(net):
        CHANGES[change](net)
    assert net.layer is layer
    assert net.losses is losses
    assert state(net) == before


def test_draws_of_the_function_leave_the_public_generator_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    net = Net()
    torch.manual_seed(1)
    with restoring(net):
        torch.rand(100)
    assert torch.equal(torch.rand(2), expected)
