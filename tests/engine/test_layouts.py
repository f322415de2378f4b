"""Models that torch lays out or compiles in another way: channels last gives the same sums,
compiled modules are refused.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dppipe.clipping import Flat, Layerwise
from dppipe.engine import Engine, check_engine, clipped_sum
from dppipe.errors import PrivacyRefusal


def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(4, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, groups=2, bias=False), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.ConvTranspose2d(8, 4, 2), nn.Conv2d(4, 4, 1), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip


def batch():
    return torch.randn(6, 4, 9, 9, generator=torch.Generator().manual_seed(1)), torch.arange(6) % 3


@pytest.mark.parametrize(
    "clipper",
    [Flat(max_grad_norm=0.1), Layerwise(max_grad_norm=0.1)],
    ids=lambda clipper: clipper.kind,
)
@pytest.mark.parametrize("units", [None, [0, 1, 1, 0, 2, 3]], ids=["rows", "units"])
@pytest.mark.parametrize(("model_last", "input_last"), [(True, True), (True, False), (False, True)])
def test_channels_last_changes_nothing(clipper, units, model_last, input_last):
    x, y = batch()
    wanted = clipped_sum(network(), loss, (x, y), clipper, units=units)
    model = network().to(memory_format=torch.channels_last) if model_last else network()
    given = clipped_sum(
        model,
        loss,
        (x.to(memory_format=torch.channels_last) if input_last else x, y),
        clipper,
        units=units,
    )
    torch.testing.assert_close(given.norms, wanted.norms, rtol=1e-5, atol=1e-7)
    for name, value in wanted.sums.items():
        torch.testing.assert_close(given.sums[name], value, rtol=1e-5, atol=1e-6)


def test_channels_last_passes_the_check():
    x, y = batch()
    with Engine(network().to(memory_format=torch.channels_last), loss, Flat()) as engine:
        check_engine(engine, (x.to(memory_format=torch.channels_last), y))


def compiled():
    return torch.compile(network(), backend="eager")


def compiled_in_place():
    model = network()
    model.compile(backend="eager")
    return model


def compiled_in_part():
    model = network()
    model[0] = torch.compile(model[0], backend="eager")
    return model


@pytest.mark.parametrize(
    ("make", "place"),
    [(compiled, "model"), (compiled_in_place, "model"), (compiled_in_part, "0")],
    ids=["whole", "in place", "part"],
)
def test_a_compiled_module_is_refused_by_name(make, place):
    """A compiled graph goes past what the engine sees of a forward pass."""
    with pytest.raises(PrivacyRefusal, match=rf"^{place}: .*torch.compile.*Give the module itself"):
        clipped_sum(make(), loss, batch(), Flat())
    with (
        Engine(make(), loss, Flat()) as engine,
        pytest.raises(PrivacyRefusal, match=r"torch\.compile"),
    ):
        check_engine(engine, batch())


def test_weights_that_a_function_uses_out_of_sight_are_never_left_out():
    """What the engine can't see in a forward pass, the backward pass shows: the module is then
    evaluated row by row.
    """

    class Hidden(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight.T

        @staticmethod
        def backward(ctx, gradient):
            x, weight = ctx.saved_tensors
            return gradient @ weight, gradient.T @ x

    class Uses(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 3, bias=False)

        def forward(self, x):
            with torch._C.DisableTorchFunction():
                return Hidden.apply(x, self.inner.weight)

    torch.manual_seed(0)
    model, data = Uses(), (torch.randn(5, 4), torch.arange(5) % 3)
    wanted = clipped_sum(nn.Sequential(model.inner), loss, data, Flat()).sums["0.weight"]
    found = clipped_sum(model, loss, data, Flat()).sums["inner.weight"]
    torch.testing.assert_close(found, wanted)
