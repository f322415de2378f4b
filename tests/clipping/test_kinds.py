"""Single clippers against published numbers, and the mistakes that a spec can make with each."""

from __future__ import annotations

import math

import numpy
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from dppipe.clipper_abilities import sensitivity
from dppipe.clipping import (
    AdaClip,
    Adaptive,
    Automatic,
    Clipper,
    Flat,
    Global,
    Grouped,
    Jl,
    Layerwise,
    Microbatch,
)
from dppipe.engine import clipped_sum
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.optim.schedules.base import factors_of
from dppipe.spec import spec_from_text


def one_gradient(clipper: Clipper, *values: float) -> list[float]:
    """Return what is left of one gradient."""
    model = nn.Linear(len(values), 1, bias=False)
    sums = clipped_sum(
        model, lambda model, x: model(x).squeeze(1), torch.tensor([values]), clipper
    ).sums
    return sums["weight"].flatten().tolist()


@pytest.mark.parametrize(
    ("clipper", "gradient", "wanted"),
    [
        (Flat(), (3.0, 4.0), (0.6, 0.8)),
        (Flat(), (0.3, 0.4), (0.3, 0.4)),
        (Automatic(), (3.0, 4.0), (0.598802, 0.798403)),
        (Automatic(variant="auto_v"), (3.0, 4.0), (0.6, 0.8)),
        (Automatic(variant="auto_v"), (0.0, 0.0), (0.0, 0.0)),
        (Global(threshold=10.0), (3.0, 4.0), (0.3, 0.4)),
        (Global(threshold=4.0), (3.0, 4.0), (0.0, 0.0)),
        (Global(threshold=4.0, variant="adaptive"), (3.0, 4.0), (0.6, 0.8)),
    ],
    ids=str,
)
def test_one_gradient_is_shrunk_as_published(clipper, gradient, wanted):
    assert one_gradient(clipper, *gradient) == pytest.approx(wanted, abs=1e-6)


def test_the_sensitivity_of_layers_is_the_norm_of_their_bounds():
    clipper = Layerwise(max_grad_norms=(1, 2, 2))
    assert clipper.max_grad_norm == 3
    bounds = clipper.bounds(clipper.init_state({"a": 1, "b": 5, "c": 2}))
    assert sensitivity(clipper, bounds, "zero_out") == 3
    assert sensitivity(clipper, (1, 2, 2), "replace_one") == 6


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace_one"])
def test_the_sensitivity_of_averages_is_twice_the_bound_under_every_relation(relation):
    assert sensitivity(Microbatch(max_grad_norm=0.5), (0.5,), relation) == 1.0


def test_shares_by_parameters_follow_their_number_and_keep_the_bound():
    shares = Layerwise(shares="parameters", max_grad_norm=2.0).init_state({"a": 10, "b": 30})[
        "bounds"
    ]
    assert shares[1] / shares[0] == pytest.approx(math.sqrt(3))
    assert math.hypot(*shares) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("projections", "tolerance", "wanted"), [(30, 0.5, 9.5307e-6), (100, 0.4, 4.466e-10)]
)
def test_the_failure_probability_of_estimated_norms(projections, tolerance, wanted):
    assert Jl(projections=projections, tolerance=tolerance).failure_probability() == pytest.approx(
        wanted, rel=0.01
    )


def test_estimated_norms_are_refused_unless_their_failure_is_paid_for():
    assert "paid for" in (Jl().refusal("zero_out") or "")
    assert Jl(delta=1e-6).refusal("zero_out") is None
    clipper = Jl(projections=30, tolerance=0.5, delta=1e-4)
    assert clipper.failure_delta(uses=10) == 1e-4
    with pytest.raises(PrivacyRefusal, match=r"expected at least 0\.000190"):
        clipper.failure_delta(uses=20)


def test_averages_are_refused_where_records_have_no_places():
    assert "relation" in (Microbatch().refusal("add_remove") or "")
    assert Microbatch().refusal("replace_one") is None


def test_a_slot_depends_on_nothing_but_the_record_and_slots_are_even():
    """Of 20,000 records in 64 slots none is 6 sigma off, a false alarm in about 8 million."""
    clipper = Microbatch(size=4)
    indices = numpy.arange(20_000)
    slots = clipper.slots(indices, expected_batch_size=256)
    shuffled = numpy.random.default_rng(0).permutation(indices)[:50]
    assert (clipper.slots(shuffled, expected_batch_size=256) == slots[shuffled]).all()
    counts = numpy.bincount(slots, minlength=64)
    assert len(counts) == 64
    assert abs(counts - 20_000 / 64).max() < 6 * math.sqrt(20_000 / 64)
    assert set(clipper.slots(indices, expected_batch_size=1).tolist()) == {0}


NAMES = {"conv.weight": (4, 3), "conv.bias": (4,), "head.weight": (2, 4), "head.bias": (2,)}


def test_the_first_pattern_that_matches_counts():
    clipper = Grouped(max_grad_norms={"*.bias": 0.5, "conv.*": 1.0, "*": 2.0})
    groups = clipper.groups(NAMES)
    assert groups == {
        "conv.weight": "conv.*",
        "conv.bias": "*.bias",
        "head.weight": "*",
        "head.bias": "*.bias",
    }
    assert clipper.bounds(clipper.init_state({"conv.*": 12, "*.bias": 6, "*": 8})) == (
        1.0,
        0.5,
        2.0,
    )
    assert clipper.max_grad_norm == pytest.approx(math.hypot(1, 0.5, 2))


@pytest.mark.parametrize(
    "make",
    [lambda bounds: Grouped(max_grad_norms=bounds), lambda bounds: Adaptive(max_grad_norms=bounds)],
)
def test_parameters_without_a_pattern_and_patterns_without_a_parameter_are_refused(make):
    with pytest.raises(UsageError, match=r"got none for head\.weight, head\.bias"):
        make({"conv.*": 1.0}).groups(NAMES)
    with pytest.raises(UsageError, match=r"got 'cnv\.\*'"):
        make({"cnv.*": 1.0, "*": 1.0}).groups(NAMES)
    with pytest.raises(UsageError, match=r"got 'head\.\*'"):
        make({"*": 1.0, "head.*": 1.0}).groups(NAMES)


def test_listed_bounds_must_fit_the_layers():
    with pytest.raises(
        UsageError, match=r"expected 3 bounds, one for each layer \(a, b, c\), got 2"
    ):
        Layerwise(max_grad_norms=(1, 2)).init_state({"a": 1, "b": 1, "c": 1})


@pytest.mark.parametrize(
    ("cls", "options", "said"),
    [
        (Layerwise, {"max_grad_norms": [1, 2], "max_grad_norm": 1.0}, "whose norm is 2.23607"),
        (Layerwise, {"max_grad_norms": []}, "at least 1 item"),
        (Grouped, {}, "Field required"),
        (Grouped, {"max_grad_norms": {}}, "at least 1 item"),
        (Grouped, {"max_grad_norms": {"*": -1}}, "greater than 0"),
        (Grouped, {"max_grad_norms": {"*": 1.0}, "max_grad_norm": 5.0}, "whose norm is 1"),
        (Adaptive, {"min_clipbound": 2.0, "max_clipbound": 1.0}, "min_clipbound"),
        (
            Adaptive,
            {"grouping": "layerwise", "max_grad_norms": {"*": 1.0}},
            "grouping or max_grad_norms",
        ),
        (AdaClip, {"mean_decay": 1.0}, "less than 1"),
    ],
)
def test_options_that_contradict_each_other_are_errors(cls, options, said):
    with pytest.raises(ValidationError, match=said):
        cls.from_data(options)


SPEC = """
version: 1
name: t
data:      {kind: synthetic, size: 1000, features: 8, classes: 3}
model:     {kind: logistic}
optimizer: sgd
sampler:   {kind: poisson, sample_rate: 0.05, expected_batch_size: 50}
clipping:  CLIPPING
budget:    {epsilon: 8.0, delta: 1.0e-5, relation: add_remove}
train:     {steps: 10}
"""


@pytest.mark.parametrize(
    ("clipping", "said"), [("microbatch", "keep their places"), ("jl", "paid for")]
)
def test_what_has_no_proof_is_refused_by_name_at_validation(clipping, said):
    with pytest.raises(PrivacyRefusal, match=rf"clipping\.kind: .*{said}"):
        spec_from_text(SPEC.replace("CLIPPING", clipping))


def test_a_schedule_of_the_bound_starts_at_the_bound_and_stays_above_its_end():
    clipper = Flat.from_data({"bound_schedule": {"kind": "linear", "end": 0.5}})
    factors = factors_of(clipper.bound_schedule, steps=5)
    assert factors == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6])
    assert factors_of(Flat().bound_schedule, steps=3) == [1.0] * 3


def test_adaclip_is_flat_at_first_and_then_follows_what_was_released():
    clipper = AdaClip(max_grad_norm=2.0)
    state = clipper.init_state({"all": 4})
    gradient = {"w": torch.tensor([1.0, 0.0, 0.0, 0.0])}
    assert clipper.restore(state, gradient) is gradient
    generator = torch.Generator().manual_seed(1)
    for _ in range(200):
        seen = torch.randn(4, generator=generator) * torch.tensor([0.3, 0.03, 0.03, 0.03])
        state = clipper.update(
            state, {"gradient": {"w": seen}, "noise_std": 0.0, "expected_batch_size": 10.0}
        )
    now = clipper.at(state)
    changed = now.transform({"w": seen})
    torch.testing.assert_close(clipper.restore(state, changed)["w"], seen)
    assert now.scale["w"][0] > now.scale["w"][1]


def test_adaclip_follows_releases_by_its_formula():
    """Mean and variance of each coordinate, by hand: a release is the mean of B examples in rescaled coordinates, with noise."""
    clipper = AdaClip(max_grad_norm=2.0, mean_decay=0.7, spread_decay=0.6, spread_range=10.0)
    batch, noise = 50.0, 0.03
    state = clipper.init_state({"all": 3})
    first = 2.0 / math.sqrt(3)
    mean, variance, scale, shift = [0.0] * 3, [first**2] * 3, [1.0] * 3, [0.0] * 3
    for released in ([0.5, -0.2, 0.0], [0.3, 0.04, -0.5], [0.1, 0.1, 3.0]):
        given = {
            "gradient": {"w": torch.tensor(released, dtype=torch.float64)},
            "noise_std": noise,
            "expected_batch_size": batch,
        }
        seen = [scale[j] * released[j] + shift[j] for j in range(3)]
        restored = clipper.restore(state, {"w": torch.tensor(released, dtype=torch.float64)})["w"]
        assert restored.tolist() == pytest.approx(seen, rel=1e-12)
        state = clipper.update(state, given)
        for j in range(3):
            found = batch * ((seen[j] - mean[j]) ** 2 - (noise * scale[j]) ** 2)
            found = min(max(found, (first / 10) ** 2), (first * 10) ** 2)
            mean[j] = 0.7 * mean[j] + 0.3 * seen[j]
            variance[j] = 0.6 * variance[j] + 0.4 * found
        spreads = [math.sqrt(v) for v in variance]
        scale, shift = [math.sqrt(s * sum(spreads)) / 2.0 for s in spreads], list(mean)
        assert state["mean"]["w"].tolist() == pytest.approx(mean, rel=1e-12)
        assert state["variance"]["w"].tolist() == pytest.approx(variance, rel=1e-12)
        assert clipper.at(state).scale["w"].tolist() == pytest.approx(scale, rel=1e-12)


def test_what_a_clipper_is_given_has_no_examples_but_one():
    seen: list[Tensor] = []

    class Looks(Clipper):
        def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:
            seen.append(norms.shape)
            return 0 * norms

    one_gradient(Looks(), 1.0, 2.0)
    assert seen == [(1,)]
