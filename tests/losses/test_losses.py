"""Losses by name equal their formulas in float64, and class weights are constants of the spec."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from dppipe.clipping import Flat
from dppipe.engine import clipped_sum
from dppipe.errors import SpecError, UsageError
from dppipe.lightning.objectives import Objective
from dppipe.losses import CrossEntropy, Focal, Huber, Mse
from dppipe.losses.base import Loss
from dppipe.pipeline.run import build_module
from dppipe.spec import spec_from_text

numbers = st.floats(-8, 8, width=32)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(numbers, min_size=3, max_size=3),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0]),
)
def test_focal_is_its_formula_of_three_classes(scores, label, gamma):
    loss = Focal(gamma=gamma, class_weights=(1.0, 2.0, 5.0))
    total = sum(math.exp(score) for score in scores)
    chance = math.exp(scores[label]) / total
    missed = sum(math.exp(s) for place, s in enumerate(scores) if place != label) / total
    expected = (1.0, 2.0, 5.0)[label] * missed**gamma * -math.log(chance)
    found = loss.per_record(
        torch.tensor([scores], dtype=torch.float64), torch.tensor([label]), task="multiclass"
    )
    assert float(found) == pytest.approx(expected, rel=1e-6, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(numbers, st.integers(0, 1), st.floats(0.05, 0.95))
def test_priors_weigh_two_classes_by_one_over_their_shares(score, label, share):
    loss = CrossEntropy(priors=(1 - share, share))
    signed = score if label else -score
    expected = math.log1p(math.exp(-signed)) / (2 * (share if label else 1 - share))
    found = loss.per_record(
        torch.tensor([[score]], dtype=torch.float64), torch.tensor([float(label)]), task="binary"
    )
    assert float(found) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(numbers, numbers, st.floats(0.1, 5))
def test_huber_is_its_formula(predicted, target, delta):
    error = abs(predicted - target)
    near = error <= delta
    expected = error**2 / 2 if near else delta * (error - delta / 2)
    found = Huber(delta=delta).per_record(
        torch.tensor([[predicted]], dtype=torch.float64),
        torch.tensor([[target]], dtype=torch.float64),
        task="regression",
    )
    assert float(found) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("task", "loss"),
    [("multiclass", CrossEntropy()), ("binary", CrossEntropy()), ("regression", Mse())],
)
def test_the_default_is_the_loss_of_that_name(task, loss):
    outputs = 3 if task == "multiclass" else 1
    predictions = torch.randn(6, outputs, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(6) % 2
    batch = (predictions, targets if task != "regression" else targets[:, None].float())
    default = Objective(task, outputs).per_sample_loss(lambda inputs: inputs, batch)
    named = Objective(task, outputs, loss=loss).per_sample_loss(lambda inputs: inputs, batch)
    assert torch.equal(default, named)


@pytest.mark.parametrize("loss", [Focal(gamma=0.5), Focal(), Focal(gamma=0)])
def test_focal_has_a_finite_gradient_where_a_record_is_certain(loss):
    predictions = torch.tensor([[80.0], [-80.0], [80.0]], requires_grad=True)
    losses = loss.per_record(predictions, torch.tensor([1.0, 0.0, 0.0]), task="binary")
    losses.sum().backward()
    assert losses.isfinite().all()
    assert predictions.grad is not None
    assert predictions.grad.isfinite().all()
    assert predictions.grad[2].abs() > 0.9


@pytest.mark.parametrize("loss", [Focal(priors=(0.9, 0.1)), CrossEntropy(class_weights=(1.0, 1e6))])
def test_a_weighted_record_moves_the_sum_by_no_more_than_the_bound(loss: Loss):
    model = torch.nn.Linear(4, 1)
    generator = torch.Generator().manual_seed(0)
    batch = (torch.randn(8, 4, generator=generator), torch.tensor([0.0, 1.0] * 4))
    objective = Objective("binary", 1, loss=loss)
    whole = clipped_sum(model, objective.per_sample_loss, batch, Flat(max_grad_norm=0.5))
    for record in range(8):
        others = [place for place in range(8) if place != record]
        rest = tuple(part[others] for part in batch)
        less = clipped_sum(model, objective.per_sample_loss, rest, Flat(max_grad_norm=0.5))
        moved = sum((whole.sums[name] - less.sums[name]).square().sum() for name in whole.sums)
        assert math.sqrt(float(moved)) <= 0.5 * (1 + 1e-5)


def test_a_weighted_gradient_is_the_weight_times_the_plain_one():
    model = torch.nn.Linear(4, 3)
    inputs = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([0, 1, 2, 1, 0])
    objective = Objective("multiclass", 3, loss=CrossEntropy(class_weights=(1.0, 10.0, 0.5)))
    found = clipped_sum(
        model, objective.per_sample_loss, (inputs, targets), Flat(max_grad_norm=1e9)
    )
    weights = torch.tensor([1.0, 10.0, 0.5])[targets]
    losses = weights * F.cross_entropy(model(inputs), targets, reduction="none")
    expected = torch.autograd.grad(losses.sum(), model.weight)[0]
    assert torch.allclose(found.sums["weight"], expected, rtol=1e-5, atol=1e-6)


SPEC = """\
version: 1
name: losses
data: {kind: synthetic, size: 200, classes: 3}
model: logistic
optimizer: sgd
sampler: {kind: poisson, sample_rate: 0.1}
noise: {kind: constant, noise_multiplier: 2.0}
budget: {epsilon: 5, delta: 1.0e-5}
train: {steps: 2, loss: LOSS}
"""


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("huber", r"train\.loss: expected a loss for a multiclass task, got 'huber'"),
        ("{kind: focal, priors: [0.5, 0.5]}", r"train\.loss\.priors: expected 3 numbers"),
        ("{kind: focal, class_weights: [1, 0, 1]}", r"class_weights\.1: expected a number > 0"),
        ("{kind: focal, priors: [0.5, 0.4, 0.4]}", r"expected priors that add up to 1, got 1\.3"),
        ("{kind: mse, priors: [0.5, 0.5]}", r"train\.loss\.priors: expected .* key"),
        ("focel", r"no loss named 'focel'.*Did you mean 'focal'"),
    ],
)
def test_a_loss_that_does_not_fit_is_refused_at_its_place(loss, message):
    with pytest.raises(SpecError, match=message):
        spec_from_text(SPEC.replace("LOSS", loss))


def test_both_ways_of_weighing_classes_are_refused_together():
    both = "{kind: focal, class_weights: [1, 1, 1], priors: [0.4, 0.3, 0.3]}"
    with pytest.raises(SpecError, match=r"expected class_weights or priors, got both"):
        spec_from_text(SPEC.replace("LOSS", both))


MODULE = """
from lightning.pytorch import LightningModule
from torch import nn

class Net(LightningModule):
    def __init__(self, input_shape, outputs):
        super().__init__()
        self.layer = nn.Linear(input_shape[0], outputs)

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
"""


@pytest.mark.parametrize(
    ("option", "value"), [("loss", "cross_entropy"), ("metrics", "[accuracy]")]
)
def test_a_lightning_module_brings_its_own(option, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"loss_nets_{option}.py").write_text(MODULE)
    text = SPEC.replace(", loss: LOSS", f", {option}: {value}").replace("optimizer: sgd\n", "")
    spec = spec_from_text(
        text.replace("model: logistic", f"model: {{class_path: loss_nets_{option}.Net}}")
    )
    with pytest.raises(UsageError, match=rf"train\.{option}: expected none beside Net"):
        build_module(spec, steps=1)
