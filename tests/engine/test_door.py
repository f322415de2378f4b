"""The door of the engine: what callers may rely on."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from dppipe.clipping import Flat, Layerwise
from dppipe.engine import Engine, clipped_sum, first_of_units, singleton_loss
from dppipe.errors import UsageError

few = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def loss(model, batch):
    return F.cross_entropy(model(batch["x"]), batch["y"], reduction="none")


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def batch(rows, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(rows, 4, generator=generator) * 3,
        "y": torch.randint(0, 3, (rows,), generator=generator),
    }


def test_a_batch_is_any_tree_of_tensors(loop):
    result = clipped_sum(model(), loss, batch(5), Flat(max_grad_norm=0.3))
    loop(model(), batch(5), loss=loss, bound=0.3).agrees_with(result)


def test_an_empty_batch_gives_zeros():
    result = clipped_sum(model(), loss, batch(0), Layerwise())
    assert result.norms.shape == (0, 2)
    assert all(not total.any() for total in result.sums.values())
    assert set(result.sums) == {name for name, _ in model().named_parameters()}


def test_a_batch_of_masked_rows_gives_zeros():
    result = clipped_sum(model(), loss, batch(3), Flat(), mask=torch.zeros(3, dtype=torch.bool))
    assert not result.norms.any()
    assert all(not total.any() for total in result.sums.values())


def test_gradients_and_module_are_untouched():
    network = model()
    network[0].weight.grad = torch.ones(8, 4)
    before, attributes = (
        copy.deepcopy(network.state_dict()),
        {name: set(vars(m)) for name, m in network.named_modules()},
    )
    clipped_sum(network, loss, batch(4), Flat())
    assert torch.equal(network[0].weight.grad, torch.ones(8, 4))
    assert network[2].weight.grad is None
    assert network.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert {name: set(vars(m)) for name, m in network.named_modules()} == attributes
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in network.modules())


@few
@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.data())
def test_pieces_add_up_to_the_whole(sizes, data):
    whole = batch(sum(sizes))
    bounds = st.lists(st.booleans(), min_size=sum(sizes), max_size=sum(sizes))
    mask = torch.tensor(data.draw(bounds), dtype=torch.bool)
    expected = clipped_sum(model(), loss, whole, Flat(), mask=mask)
    with Engine(model(), loss, Flat()) as engine:
        sums, norms, start = engine.zeros(), [], 0
        for size in sizes:
            rows = slice(start, start + size)
            piece = {name: value[rows] for name, value in whole.items()}
            norms.append(engine.accumulate(piece, sums, bounds=engine.bounds(), mask=mask[rows]))
            start += size
    assert torch.allclose(torch.cat(norms), expected.norms, rtol=1e-5, atol=1e-7)
    assert all(
        torch.allclose(sums[name], total, rtol=1e-4, atol=1e-6)
        for name, total in expected.sums.items()
    )


def test_sums_are_added_onto_views_of_one_flat_buffer():
    expected = clipped_sum(model(), loss, batch(4), Flat())
    with Engine(model(), loss, Flat()) as engine:
        flat = torch.full((sum(p.numel() for p in engine.parameters.values()),), 5.0)
        parts = flat.split([p.numel() for p in engine.parameters.values()])
        views = {
            name: part.view_as(p)
            for (name, p), part in zip(engine.parameters.items(), parts, strict=True)
        }
        engine.accumulate(batch(4), views, bounds=engine.bounds())
    together = torch.cat([total.flatten() for total in expected.sums.values()])
    assert torch.allclose(flat - 5.0, together, atol=1e-5)


def test_no_example_counts_for_more_than_its_bound():
    """Removing any one row moves the sum by at most the bound."""
    everything = batch(6)
    with Engine(model(), loss, Flat(max_grad_norm=0.1)) as engine:
        whole, bounds = engine.zeros(), engine.bounds()
        engine.accumulate(everything, whole, bounds=bounds)
        for i in range(6):
            mask = torch.arange(6) != i
            without = engine.zeros()
            engine.accumulate(everything, without, bounds=bounds, mask=mask)
            moved = math.sqrt(
                sum(float((whole[name] - without[name]).square().sum()) for name in whole)
            )
            assert moved <= 0.1 * (1 + 1e-5)


@few
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8), st.data())
def test_units_are_averaged_before_they_are_clipped(loop, units, data):
    mask = data.draw(st.lists(st.booleans(), min_size=len(units), max_size=len(units)))
    network, rows = (
        model().double(),
        {name: v.double() if v.is_floating_point() else v for name, v in batch(len(units)).items()},
    )
    result = clipped_sum(
        network,
        loss,
        rows,
        Flat(max_grad_norm=0.2),
        units=torch.tensor(units),
        mask=torch.tensor(mask),
    )
    expected = loop(network, rows, loss=loss, bound=0.2, units=units, mask=mask)
    expected.agrees_with(result, norm_tolerance=1e-9, sum_tolerance=1e-9)


def test_a_broken_row_of_one_unit_leaves_the_others_alone():
    rows = batch(4)
    rows["x"][1] = math.nan
    result = clipped_sum(model(), loss, rows, Flat(), units=[0, 0, 1, 2])
    kept = clipped_sum(model(), loss, {name: value[2:] for name, value in rows.items()}, Flat())
    assert all(
        torch.allclose(result.sums[name], total, atol=1e-6) for name, total in kept.sums.items()
    )
    assert result.norms[2:].isfinite().all()


def test_one_row_of_each_unit_is_marked():
    assert first_of_units([5, 2, 5, 2, 9]).tolist() == [True, True, False, False, True]


def test_frozen_parameters_have_no_sum():
    network = model()
    network[0].weight.requires_grad_(False)
    result = clipped_sum(network, loss, batch(3), Flat())
    assert set(result.sums) == {"0.bias", "2.weight", "2.bias"}


def test_a_step_that_returns_a_mean_is_evaluated_row_by_row(loop):
    """The mean over tokens that count divides by their number in the batch, so only a batch of one
    tells a row's own loss.
    """

    def step(network, rows):
        return F.cross_entropy(network(rows["x"]), rows["y"], ignore_index=2)

    rows = batch(6)
    rows["y"] = rows["y"] % 2
    result = clipped_sum(model(), singleton_loss(step), rows, Flat())
    loop(model(), rows, loss=lambda network, row: step(network, row).reshape(1)).agrees_with(result)


def test_a_loss_of_the_wrong_shape_is_an_error():
    with pytest.raises(UsageError, match="one loss for each of"):
        clipped_sum(model(), lambda network, rows: loss(network, rows).mean(), batch(3), Flat())


def test_groups_that_leave_a_parameter_out_are_an_error():
    class Partial(Flat):
        def groups(self, named_shapes):
            return {"0.weight": "all"}

    with pytest.raises(UsageError, match="one group for every trainable parameter"):
        clipped_sum(model(), loss, batch(3), Partial())


def test_both_engines_agree():
    fast = clipped_sum(model(), loss, batch(5), Flat())
    with Engine(model(), loss, Flat(), mode="functional") as engine:
        sums = engine.zeros()
        norms = engine.accumulate(batch(5), sums, bounds=engine.bounds())
    assert torch.allclose(fast.norms, norms, rtol=1e-5)
    assert all(torch.allclose(fast.sums[name], total, atol=1e-6) for name, total in sums.items())


def test_a_layer_that_is_skipped_at_times_is_still_planned():
    """Stochastic depth may hide a layer at first; the layout is extended when it is met."""

    class Skipping(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.calls = nn.Linear(4, 4), nn.Linear(4, 3), 0

        def forward(self, x):
            self.calls += 1
            return self.second(self.first(x) if self.calls > 3 else x)

    with Engine(Skipping(), loss, Flat()) as engine:
        for _ in range(3):
            sums = engine.zeros()
            engine.accumulate(batch(4), sums, bounds=engine.bounds())
    assert sums["first.weight"].any()


@pytest.mark.parametrize(
    "layer", [nn.LazyLinear(3), nn.LazyConv2d(3, 2)], ids=lambda layer: type(layer).__name__
)
def test_a_layer_whose_sizes_are_not_known_is_named_with_its_path(layer):
    named = f"model: expected layers whose sizes are known, got {type(layer).__name__} at '1'"
    with pytest.raises(UsageError, match=named):
        clipped_sum(nn.Sequential(nn.Tanh(), layer), loss, batch(4), Flat())


def test_a_lazy_layer_that_has_seen_made_up_input_is_an_ordinary_one():
    lazy = nn.Sequential(nn.LazyLinear(3))
    lazy(torch.zeros(1, 4))
    assert clipped_sum(lazy, loss, batch(4), Flat()).sums["0.weight"].any()
