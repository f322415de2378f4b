"""Batch sizes and bounds that move over a run: drawn, divided, noised and charged at each step's own numbers."""

from __future__ import annotations

import math

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from private_steps import private_step
from torch import nn
from torch.utils.data import TensorDataset

from dppipe.clipping import Adaptive, Flat
from dppipe.engine import Engine
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import LogicalBatch, PrivateLoader
from dppipe.noise import Constant, Linear
from dppipe.optim import schedules
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants import Pld, Rdp
from dppipe.privacy.budget import Budget
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.streams import stream_key
from dppipe.runs.ledger import Ledger
from dppipe.runs.verify import verify_ledger
from dppipe.sampling import Poisson

GROWING = Poisson(
    sample_rate=0.05, batch_schedule=schedules.Piecewise(values=(1.0, 4.0), boundaries=(0.5,))
)
SHRINKING = Flat(
    max_grad_norm=2.0, bound_schedule=schedules.Piecewise(values=(1.0, 0.25), boundaries=(0.5,))
)


def parts(sampler=GROWING, clipping=SHRINKING, noise=None, accountant=None, epsilon=1e6):
    budget = Budget(epsilon=epsilon, delta=1e-5)
    return PrivateParts(
        sampler, clipping, noise or Constant(noise_multiplier=1.5), accountant or Rdp(), budget
    )


def loss(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    x, y = batch
    return model(x).sum(1) * y


def test_every_step_has_its_own_rate_size_and_bound():
    plan = plan_privacy(parts(), name="t", records=1000, steps=6)
    assert [plan.batch(step).sample_rate for step in range(1, 7)] == [0.05] * 3 + [0.2] * 3
    assert [plan.batch(step).expected_batch_size for step in range(1, 7)] == [50.0] * 3 + [
        200.0
    ] * 3
    assert [plan.bound_factor(step) for step in range(1, 7)] == [1.0] * 3 + [0.25] * 3
    assert plan.charged_runs() == [(1.5, 0.05, 3), (1.5, 0.2, 3)]


def test_a_step_is_divided_noised_and_charged_by_its_own_numbers(tmp_path):
    """Zero gradients leave the noise alone: variances within 5 standard errors; false alarms below 1e-5 for both steps."""
    chosen = parts()
    plan = plan_privacy(chosen, name="t", records=40, steps=2)
    dataset = TensorDataset(torch.zeros(40, 3), torch.zeros(40))
    loader = PrivateLoader(dataset, sampler=chosen.sampler)
    loader.arm(plan, stream=Keystream(stream_key("sampler")), ranks=Ranks())
    engine = Engine(nn.Linear(3, 30_000), loss, chosen.clipping)
    ledger = Ledger.create(tmp_path / "ledger.jsonl", plan=plan.to_json())
    step = private_step(
        chosen, "zero_out", plan, engine, ledger, GaussianStream(stream_key("noise")), {}
    )
    for bound, expected in ((2.0, 2.0), (0.5, 8.0)):
        given_noise = torch.cat(
            [value.flatten() for value in step(LogicalBatch(loader), place=lambda p: p).values()]
        ).double()
        ratio = float(given_noise.square().mean()) / (1.5 * bound / expected) ** 2
        assert abs(ratio - 1) < 5 * math.sqrt(2 / given_noise.numel())
        assert step.shown["max_grad_norm"] == bound


def test_draws_follow_the_rate_of_their_step():
    """Mean sizes over 2000 draws within 6 standard errors; false alarms below 1e-8."""
    plan = plan_privacy(parts(), name="t", records=500, steps=4000)
    loader = PrivateLoader(range(500), sampler=GROWING)
    loader.arm(plan, stream=Keystream(stream_key("sampler")), ranks=Ranks())
    for steps, rate in ((range(1, 2001), 0.05), (range(2001, 4001), 0.2)):
        sizes = numpy.array([len(loader.draw(step)) for step in steps])
        assert abs(sizes.mean() - 500 * rate) < 6 * math.sqrt(500 * rate * (1 - rate) / 2000)


@pytest.mark.parametrize(
    "accountant",
    [pytest.param(Pld(), marks=pytest.mark.slow, id="pld"), pytest.param(Rdp(), id="rdp")],
)
def test_auto_noise_lands_on_the_budget_with_every_schedule_together(accountant):
    noise = Linear(end=0.5)
    sampler = Poisson(
        sample_rate=0.02,
        batch_schedule=schedules.Piecewise(values=(1.0, 2.0, 3.0), boundaries=(0.3, 0.6)),
    )
    plan = plan_privacy(
        parts(sampler, noise=noise, accountant=accountant, epsilon=2.0),
        name="t",
        records=1000,
        steps=10,
    )
    assert 1.98 < plan.epsilon <= 2.0
    assert len(plan.charged_runs()) == 10


def test_bounds_that_move_cost_nothing():
    still, moving = (
        plan_privacy(parts(clipping=each), name="t", records=1000, steps=6)
        for each in (Flat(), SHRINKING)
    )
    assert still.epsilon == moving.epsilon


@settings(deadline=None, max_examples=12)
@given(end=st.floats(0.1, 8.0), epochs=st.floats(0.5, 20.0))
def test_epochs_are_counted_in_records_drawn(end, epochs):
    sampler = Poisson(sample_rate=0.05, batch_schedule=schedules.Linear(end=end))
    plan = plan_privacy(parts(sampler, Flat()), name="t", records=1000, epochs=epochs)
    drawn = sum(plan.batch(step).sample_rate for step in range(1, plan.steps + 1))
    assert abs(drawn - epochs) < 0.8


def test_a_batch_beyond_all_records_is_refused():
    sampler = Poisson(sample_rate=0.5, batch_schedule=schedules.Linear(end=4.0))
    with pytest.raises(UsageError, match="no larger than the number of records"):
        plan_privacy(parts(sampler), name="t", records=1000, steps=6)


def test_a_bound_that_adapts_takes_no_schedule():
    clipping = Adaptive(bound_schedule=schedules.Linear(end=0.5))
    with pytest.raises(PrivacyRefusal, match="bound_schedule"):
        plan_privacy(parts(clipping=clipping), name="t", records=1000, steps=6)


@pytest.mark.parametrize(
    "chosen",
    [parts(clipping=Flat()), parts(sampler=Poisson(sample_rate=0.1))],
    ids=["batches", "bounds"],
)
def test_what_moves_over_a_run_needs_its_last_step(chosen):
    with pytest.raises(UsageError, match="needs to know its last step"):
        plan_privacy(chosen, name="t", records=1000)


def test_a_run_writes_each_steps_numbers(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    done = run(
        "sampler={kind: poisson, sample_rate: 0.05, batch_schedule: {kind: linear, end: 3}}",
        "clipping={kind: flat, max_grad_norm: 1.0, bound_schedule: {kind: exponential, end: 0.5}}",
        "accountant=rdp",
    )
    assert done.exit_code == 0, done.output
    rates = [row["sample_rate"] for row in done.rows]
    assert rates == pytest.approx([0.05 * (1 + 0.2 * step) for step in range(10)])
    assert [row["event"]["sampling_probability"] for row in done.rows] == rates
    bounds = [row["max_grad_norm"] for row in done.rows]
    assert bounds == pytest.approx([0.5 ** (step / 10) for step in range(10)])
    curves = EventAccumulator(str(done.path), size_guidance={"scalars": 0})
    curves.Reload()
    assert [point.value for point in curves.Scalars("privacy/sample_rate")] == pytest.approx(rates)
    assert [point.value for point in curves.Scalars("privacy/max_grad_norm")] == pytest.approx(
        bounds
    )
    assert verify_ledger(done.path).intact
    assert "0.05 to 0.14" in (done.path / "privacy.md").read_text()


@pytest.mark.parametrize("sampler", ["poisson", "user"])
@pytest.mark.parametrize("values", ["[1, 4, 2]", "[4, 1, 3]"])
def test_every_step_draws_at_the_rate_that_its_row_charges(run, monkeypatch, sampler, values):
    drawn, draw = [], Poisson.draw

    def noting(self, records, *, rate, generator):
        drawn.append(rate)
        return draw(self, records, rate=rate, generator=generator)

    monkeypatch.setattr(Poisson, "draw", noting)
    schedule = f"{{kind: piecewise, values: {values}, boundaries: [0.3, 0.6]}}"
    done = run(
        f"sampler={{kind: {sampler}, sample_rate: 0.02, batch_schedule: {schedule}}}",
        "budget.epsilon=1000",
        *(["data.users=200"] if sampler == "user" else []),
    )
    assert done.exit_code == 0, done.output
    assert drawn == [row["sample_rate"] for row in done.rows]
    assert len(set(drawn)) == 3


def test_a_schedule_without_a_last_step_is_refused_at_validation(run):
    done = run("sampler.batch_schedule=linear", "train={until: budget}")
    assert done.exit_code == 2
    assert "sampler.batch_schedule needs a last step" in done.output
