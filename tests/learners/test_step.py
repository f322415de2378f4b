"""The private step against its definition: what is summed, what is added, what it is divided by, and when it is charged."""

from __future__ import annotations

import math

import numpy
import pytest
import torch
from private_steps import private_step
from torch import nn
from torch.utils.data import TensorDataset

from dppipe.clipper_abilities import first_state
from dppipe.clipping import Flat, Layerwise
from dppipe.engine import Engine
from dppipe.errors import BudgetExhausted
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import LogicalBatch, PrivateLoader
from dppipe.noise import Constant
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.streams import stream_key
from dppipe.runs.ledger import Ledger
from dppipe.sampling import Poisson

WIDTH = 50_000


def sum_loss(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Each example's gradient with respect to the bias is its own target times a row of ones."""
    x, y = batch
    return model(x).sum(1) * y


class Silent:
    """Noise that isn't there: shows the sum underneath."""

    def add_(self, flat, std, *, over=1.0):
        return flat.div_(over)


def step(
    tmp_path,
    *,
    z=1.0,
    clipping=None,
    records=40,
    rate=0.5,
    steps=20,
    noise=None,
    physical=7,
    scale=1.0,
    width=4,
    seed=3,
):
    parts = PrivateParts(
        Poisson(sample_rate=rate),
        clipping or Flat(),
        Constant(noise_multiplier=z),
        Rdp(),
        Budget(epsilon=1e6, delta=1e-5),
    )
    plan = plan_privacy(parts, name="t", records=records, steps=steps)
    torch.manual_seed(0)
    model = nn.Linear(3, width)
    dataset = TensorDataset(torch.randn(records, 3) * scale, torch.randn(records))
    loader = PrivateLoader(dataset, sampler=parts.sampler)
    loader.physical_batch_size = physical
    loader.arm(plan, stream=numpy.random.default_rng(seed), ranks=Ranks())
    engine = Engine(model, sum_loss, parts.clipping)
    ledger = Ledger.create(tmp_path / "ledger.jsonl", plan=plan.to_json())
    stream = noise or GaussianStream(stream_key("noise"))
    state = first_state(parts.clipping, engine.groups.sizes)
    return (
        private_step(parts, "zero_out", plan, engine, ledger, stream, state),
        LogicalBatch(loader),
        dataset,
        model,
    )


def clipped_reference(model, dataset, indices, bound):
    """The clipped sum, one example at a time in float64."""
    model = model.double()
    total = [torch.zeros_like(p) for p in model.parameters()]
    for i in indices:
        x, y = (tensor[i : i + 1].double() for tensor in dataset.tensors)
        gradients = torch.autograd.grad(sum_loss(model, [x, y]).sum(), list(model.parameters()))
        norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
        for t, g in zip(total, gradients, strict=True):
            t += g * min(1.0, bound / norm)
    return total


def test_without_noise_it_is_the_clipped_sum_over_the_expected_batch_size(tmp_path):
    private, batch, dataset, model = step(tmp_path, noise=Silent())
    given = private(batch, place=lambda piece: piece)
    indices = batch.loader.sampler.draw(40, rate=0.5, generator=numpy.random.default_rng(3))
    wanted = clipped_reference(model, dataset, indices, 1.0)
    for got, want in zip(given.values(), wanted, strict=True):
        torch.testing.assert_close(got.double(), want / 20.0, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("physical", [1, 7, 1000])
def test_the_physical_batch_size_changes_nothing(tmp_path, physical):
    (tmp_path / "other").mkdir()
    private, batch, *_ = step(tmp_path, noise=Silent(), physical=physical)
    other, other_batch, *_ = step(tmp_path / "other", noise=Silent(), physical=3)
    one = private(batch, place=lambda piece: piece)
    two = other(other_batch, place=lambda piece: piece)
    for a, b in zip(one.values(), two.values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "clipping", [Flat(max_grad_norm=2.0), Layerwise(max_grad_norm=2.0)], ids=lambda c: c.kind
)
@pytest.mark.parametrize("rate", [1e-9, 0.05])
def test_noise_has_the_standard_deviation_that_is_charged(tmp_path, clipping, rate):
    """Zero gradients leave the noise alone: variance within 5 sigma of the charged one, so a false alarm in 1.7 million."""
    private, batch, *_ = step(tmp_path, z=1.5, clipping=clipping, scale=0.0, rate=rate, width=WIDTH)
    batch.loader.dataset.tensors[1].zero_()
    given = torch.cat(
        [value.flatten() for value in private(batch, place=lambda piece: piece).values()]
    ).double()
    noise = given * private.plan.expected_batch_size
    ratio = float(noise.square().mean()) / (1.5 * 2.0) ** 2
    assert abs(ratio - 1) < 5 * math.sqrt(2 / noise.numel())
    assert abs(float(noise.mean())) < 5 * 3.0 / math.sqrt(noise.numel())


def test_noise_is_added_once_however_many_pieces_there_are(tmp_path):
    """As above, with every record in a piece of its own: noise per piece would be 40 times the variance."""
    private, batch, *_ = step(tmp_path, scale=0.0, rate=1.0, physical=1, width=WIDTH)
    batch.loader.dataset.tensors[1].zero_()
    given = torch.cat(
        [value.flatten() for value in private(batch, place=lambda piece: piece).values()]
    ).double()
    ratio = float((given * 40).square().mean())
    assert abs(ratio - 1) < 5 * math.sqrt(2 / given.numel())


def test_one_record_changes_the_sum_by_at_most_the_bound(tmp_path):
    private, batch, *_ = step(tmp_path, noise=Silent(), rate=1.0, scale=1e6)
    with_record = private(batch, place=lambda piece: piece)
    batch.loader.dataset.tensors[1][5] = 0.0
    without = private(batch, place=lambda piece: piece)
    change = math.sqrt(
        sum(
            float((a - b).square().sum())
            for a, b in zip(with_record.values(), without.values(), strict=True)
        )
    )
    assert 0 < change * 40 <= 1 + 1e-5


@pytest.mark.parametrize("bad", [float("inf"), float("nan"), 1e30])
def test_a_record_that_is_not_finite_adds_nothing_and_the_step_goes_on(tmp_path, bad):
    private, batch, *_ = step(tmp_path, noise=Silent(), rate=1.0)
    batch.loader.dataset.tensors[0][5] = bad
    given = private(batch, place=lambda piece: piece)
    assert all(bool(value.isfinite().all()) for value in given.values())
    assert private.gate.ledger.rows == 1


def test_the_charge_comes_before_the_noise(tmp_path):
    rows = []

    class Watch(Silent):
        def add_(self, flat, std, *, over=1.0):
            rows.append(private.gate.ledger.rows)
            return flat.div_(over)

    private, batch, *_ = step(tmp_path, noise=Watch())
    for _ in range(3):
        private(batch, place=lambda piece: piece)
    assert rows == [1, 2, 3]


def test_a_charge_that_fails_releases_nothing(tmp_path):
    private, batch, *_ = step(tmp_path, noise=Silent())
    private.gate.ledger.close()
    with pytest.raises(Exception, match="ledger"):
        private(batch, place=lambda piece: piece)


def test_the_step_beyond_the_plan_is_refused_before_a_record_is_drawn(tmp_path):
    private, batch, *_ = step(tmp_path, steps=2)
    private(batch, place=lambda piece: piece)
    private(batch, place=lambda piece: piece)
    drawn = []
    batch.loader.gather = drawn.append
    with pytest.raises(BudgetExhausted):
        private(batch, place=lambda piece: piece)
    assert not drawn
    assert private.gate.ledger.rows == 2
