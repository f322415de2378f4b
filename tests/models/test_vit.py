"""The vision transformer: what it computes, and its gradients in the engine."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from dppipe.clipping import Flat
from dppipe.engine import Engine, clipped_sum
from dppipe.errors import DppipeError
from dppipe.models import Vit
from dppipe.networks.vision import VisionTransformer


def built(pooling: Any) -> VisionTransformer:
    torch.manual_seed(0)
    model = Vit(patch=2, width=8, heads=2, layers=2, pooling=pooling)
    network = model.build((3, 6, 4), 3).double()
    assert isinstance(network, VisionTransformer)
    if network.token is not None:
        torch.nn.init.normal_(network.token)
    return network


def losses(network: Any, batch: Any) -> torch.Tensor:
    return F.cross_entropy(network(batch[0]), batch[1], reduction="none")


@pytest.mark.parametrize("physical", [1, 3, 7])
@pytest.mark.parametrize("pooling", ["class_token", "mean"])
def test_clipped_sums_are_those_of_one_record_at_a_time_without_a_fallback(
    pooling: str, physical: int
) -> None:
    network = built(pooling)
    images = torch.randn(physical, 3, 6, 4, dtype=torch.float64)
    targets = torch.arange(physical) % 3
    engine = Engine(network, losses, Flat(max_grad_norm=0.5))
    engine.prepare((images, targets))
    assert engine.layout.functional is None
    assert engine.layout.fallback == {}
    found = clipped_sum(network, losses, (images, targets), Flat(max_grad_norm=0.5))
    parameters = dict(network.named_parameters())
    wanted = {name: torch.zeros_like(one) for name, one in parameters.items()}
    for row in range(physical):
        loss = losses(network, (images[row : row + 1], targets[row : row + 1])).sum()
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        norm = torch.stack([one.square().sum() for one in gradients]).sum().sqrt()
        torch.testing.assert_close(found.norms[row, 0], norm, rtol=1e-9, atol=1e-9)
        for name, one in zip(parameters, gradients, strict=True):
            wanted[name] += one * min(1.0, 0.5 / float(norm))
    for name, expected in wanted.items():
        torch.testing.assert_close(found.sums[name], expected.detach(), rtol=1e-8, atol=1e-10)


def test_patches_are_squares_of_the_image_in_reading_order() -> None:
    network = built("mean")
    image = torch.randn(1, 3, 6, 4, dtype=torch.float64)
    states = network.patches(image).flatten(2).transpose(1, 2)
    for place in range(6):
        row, column = divmod(place, 2)
        square = image[0, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        weight = network.patches.weight.flatten(1)
        expected = weight @ square.flatten() + network.patches.bias
        torch.testing.assert_close(states[0, place], expected)


def test_places_matter() -> None:
    network = built("class_token").eval()
    image = torch.randn(1, 3, 6, 4, dtype=torch.float64)
    with torch.no_grad():
        assert (network(image) - network(image.flip(2))).abs().max() > 1e-3


@pytest.mark.parametrize("shape", [(24,), (3, 6, 5), (3, 7, 4)])
def test_other_inputs_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DppipeError, match=r"model\.(kind|patch): expected"):
        Vit(patch=2).build(shape, 3)


def test_heads_share_the_width() -> None:
    with pytest.raises(ValueError, match="a width that 3 heads can share, got 64"):
        Vit(heads=3)
