"""Residual networks: their form, and their gradients in the engine."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dppipe.clipping import Flat
from dppipe.engine import Engine, clipped_sum
from dppipe.errors import DppipeError
from dppipe.models import Resnet, WideResnet
from dppipe.models.base import Model
from dppipe.networks.residual import StandardisedConv2d

SMALL = [
    Resnet(depth=8, width=4, groups=2),
    Resnet(depth=8, width=4, standardise=False),
    WideResnet(depth=10, widen=1),
]


def losses(network: Any, batch: Any) -> torch.Tensor:
    return F.cross_entropy(network(batch[0]), batch[1], reduction="none")


@pytest.mark.parametrize("model", SMALL, ids=["resnet", "plain weights", "wide"])
def test_clipped_sums_are_those_of_one_record_at_a_time_without_a_fallback(model: Model) -> None:
    torch.manual_seed(0)
    network = model.build((3, 8, 6), 3).double()
    batch = (torch.randn(3, 3, 8, 6, dtype=torch.float64), torch.arange(3))
    engine = Engine(network, losses, Flat(max_grad_norm=0.5))
    engine.prepare(batch)
    assert engine.layout.functional is None
    assert engine.layout.fallback == {}
    found = clipped_sum(network, losses, batch, Flat(max_grad_norm=0.5))
    parameters = dict(network.named_parameters())
    wanted = {name: torch.zeros_like(one) for name, one in parameters.items()}
    for row in range(3):
        loss = losses(network, (batch[0][row : row + 1], batch[1][row : row + 1])).sum()
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        norm = torch.stack([one.square().sum() for one in gradients]).sum().sqrt()
        torch.testing.assert_close(found.norms[row, 0], norm, rtol=1e-8, atol=1e-9)
        for name, one in zip(parameters, gradients, strict=True):
            wanted[name] += one * min(1.0, 0.5 / float(norm))
    for name, expected in wanted.items():
        torch.testing.assert_close(found.sums[name], expected.detach(), rtol=1e-7, atol=1e-9)


def test_standardised_weights_have_the_stated_mean_and_variance() -> None:
    conv = StandardisedConv2d(5, 4, 3, bias=False).double()
    nn.init.normal_(conv.weight, mean=2.0, std=7.0)
    # A picture with a single 1 shows the weights that are really used.
    picture = torch.zeros(5, 5, 5, 5, dtype=torch.float64)
    for channel in range(5):
        picture[channel, channel, 2, 2] = 1
    used = conv(picture).transpose(0, 1).flatten(1)  # [4, 45]
    torch.testing.assert_close(used.mean(1), torch.zeros(4).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(used.square().sum(1), torch.ones(4).double(), rtol=1e-6, atol=0)


def count(model: Model, outputs: int = 10) -> tuple[int, int]:
    """Return how many layers have weights but shortcuts, and how many parameters those have."""
    network = model.build((3, 32, 32), outputs)
    layers = []
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Conv2d | nn.Linear) and "shortcut" not in name:
            layers.append(layer)
    return len(layers), sum(layer.weight.numel() for layer in layers)


@pytest.mark.parametrize(
    ("model", "layers", "weights"),
    [
        # 3x3 convolutions: 3-16, 6 of 16-16, 16-32, 5 of 32-32, 32-64, 5 of 64-64; then 64-10.
        (Resnet(), 20, 9 * (48 + 6 * 256 + 512 + 5 * 1024 + 2048 + 5 * 4096) + 640),
        # 3-16, 16-64, 3 of 64-64, 64-128, 3 of 128-128, 128-256, 3 of 256-256; then 256-10.
        (
            WideResnet(),
            14,
            9 * (48 + 1024 + 3 * 4096 + 8192 + 3 * 16384 + 32768 + 3 * 65536) + 2560,
        ),
    ],
    ids=["ResNet-20", "WRN-16-4"],
)
def test_the_defaults_are_the_published_networks(model: Model, layers: int, weights: int) -> None:
    assert count(model) == (layers, weights)


@pytest.mark.parametrize("shape", [(24,), (3, 3, 8)])
@pytest.mark.parametrize("model", [Resnet(), WideResnet()], ids=["resnet", "wide"])
def test_other_inputs_are_refused(model: Model, shape: tuple[int, ...]) -> None:
    with pytest.raises(DppipeError, match=r"model\.kind: expected inputs of channels x height"):
        model.build(shape, 3)


@pytest.mark.parametrize(("kind", "depth"), [(Resnet, 18), (WideResnet, 20)])
def test_a_depth_without_whole_blocks_is_refused(kind: Any, depth: int) -> None:
    with pytest.raises(ValueError, match=r"expected a depth of 6 n \+ \d, got"):
        kind(depth=depth)
