"""Schedules of a run that its budget ends early: each step is as asked for, and paid for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dppipe.clipping.flat import Flat
from dppipe.clipping.jl import Jl
from dppipe.errors import PrivacyRefusal
from dppipe.noise import Constant, Cosine, Dynamic, Exponential, Linear, NoiseSchedule, Piecewise
from dppipe.optim import schedules
from dppipe.planning.parts import PrivateParts
from dppipe.planning.privacy_plan import plan_privacy
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.sampling import BallsInBins, Poisson, Sampler, Shuffle, User

STEPS, RECORDS, DELTA = 40, 1000, 1e-5
SHAPES = [
    schedules.Linear(end=2.0),
    schedules.Linear(end=0.3),
    schedules.Cosine(end=0.2),
    schedules.Exponential(end=0.4),
    schedules.Piecewise(values=(1.0, 0.5, 3.0), boundaries=(0.25, 0.6)),
]
NOISES = [
    Constant(noise_multiplier=1.0),
    Linear(noise_multiplier=1.0, end=2.0),
    Cosine(noise_multiplier=1.0),
    Exponential(noise_multiplier=1.0),
    Piecewise(noise_multiplier=1.0),
    Dynamic(noise_multiplier=1.0),
]
RATE, SIZE = 0.05, 50
SAMPLERS: list[Sampler] = [Poisson(sample_rate=RATE, batch_schedule=shape) for shape in SHAPES]
SAMPLERS += [Poisson(expected_batch_size=SIZE, batch_schedule=SHAPES[0])]
SAMPLERS += [User(sample_rate=RATE, batch_schedule=SHAPES[1]), Poisson(sample_rate=RATE)]
EPOCH_WISE: list[Sampler] = [Shuffle(expected_batch_size=300), BallsInBins(expected_batch_size=300)]


def parts_of(sampler: Sampler, noise: NoiseSchedule, *, moves: bool) -> PrivateParts:
    clipping = Flat(bound_schedule=SHAPES[2] if moves else None)
    budget = Budget(epsilon=1e6, delta=DELTA, unit="user" if sampler.needs_users else "example")
    return PrivateParts(sampler, clipping, noise, Rdp(), budget)


def planned(parts: PrivateParts, *, epsilon: float = 1e6) -> StepPlan:
    assert parts.budget is not None
    budget = parts.budget.model_copy(update={"epsilon": epsilon})
    return plan_privacy(replace(parts, budget=budget), name="t", records=RECORDS, steps=STEPS)


def check_cut(parts: PrivateParts) -> None:
    """Cut a run's budget at three places, and compare it with the whole run."""
    whole = planned(parts)
    for share in (0.3, 0.6, 0.9):
        cut = planned(parts, epsilon=whole.epsilon_after(int(share * STEPS)))
        assert 0 < cut.steps < whole.steps == STEPS
        assert cut.ends_at == "budget"
        for step in range(1, cut.steps + 1):
            assert cut.noise_multiplier(step) == whole.noise_multiplier(step)
            assert cut.bound_factor(step) == whole.bound_factor(step)
            mine, theirs = cut.batch(step), whole.batch(step)
            assert mine.sample_rate == theirs.sample_rate
            assert mine.expected_batch_size == theirs.expected_batch_size
            assert mine.expected_batch_size == pytest.approx(mine.sample_rate * RECORDS)
        for runs in (cut.noise, cut.batches, cut.bounds):
            assert not runs or sum(run.steps for run in runs) == cut.steps
        check_paid(parts, cut)


def check_paid(parts: PrivateParts, plan: StepPlan) -> None:
    """What the plan's own steps cost is what it states, within its budget."""
    cost = parts.accountant.compose(parts.committed(plan), relation="zero_out").epsilon(DELTA)
    assert plan.epsilon == pytest.approx(cost, rel=1e-9)
    assert plan.epsilon is not None
    assert plan.budget_epsilon is not None
    assert plan.epsilon <= plan.budget_epsilon


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.kind)
def test_noise_that_moves_is_cut_not_stretched(noise: NoiseSchedule) -> None:
    for moves in (False, True):
        check_cut(parts_of(SAMPLERS[-1], noise, moves=moves))


@pytest.mark.parametrize("sampler", range(len(SAMPLERS)))
def test_batches_that_move_are_cut_not_stretched(sampler: int) -> None:
    for noise in (NOISES[0], NOISES[1]):
        check_cut(parts_of(SAMPLERS[sampler], noise, moves=True))


@pytest.mark.parametrize("sampler", EPOCH_WISE, ids=lambda sampler: sampler.kind)
@pytest.mark.parametrize("noise", [NOISES[0], NOISES[1], NOISES[4]], ids=lambda noise: noise.kind)
def test_epochs_are_cut_not_stretched(sampler: Sampler, noise: NoiseSchedule) -> None:
    check_cut(parts_of(sampler, noise, moves=False))


def test_a_bound_that_may_fail_is_paid_for_by_the_steps_that_are_left() -> None:
    parts = parts_of(SAMPLERS[0], NOISES[0], moves=False)
    clipping = Jl(delta=DELTA / 10, projections=400)
    parts = replace(parts, clipping=clipping)
    whole = planned(parts)
    cut = planned(parts, epsilon=whole.epsilon_after(STEPS // 2))
    uses = sum(cut.batch(step).sample_rate for step in range(1, cut.steps + 1))
    assert uses * clipping.failure_probability() <= cut.failure_delta
    for plan in (whole, cut):
        cost = parts.accountant.compose(parts.committed(plan), relation="zero_out")
        assert plan.epsilon == pytest.approx(cost.epsilon(DELTA - plan.failure_delta), rel=1e-9)


@pytest.mark.parametrize("sampler", range(len(SAMPLERS)))
def test_bounds_that_may_fail_are_refused_at_just_less_than_their_uses_need(sampler: int) -> None:
    parts = parts_of(SAMPLERS[sampler], NOISES[0], moves=False)
    whole = planned(parts)
    uses = sum(whole.batch(step).sample_rate for step in range(1, STEPS + 1))
    needed = uses * Jl(projections=80).failure_probability()
    assert needed < DELTA
    planned(replace(parts, clipping=Jl(projections=80, delta=1.001 * needed)))
    with pytest.raises(PrivacyRefusal, match=r"clipping\.delta: expected at least"):
        planned(replace(parts, clipping=Jl(projections=80, delta=0.999 * needed)))


@pytest.mark.parametrize("sampler", range(len(SAMPLERS)))
def test_with_noise_that_lands_on_the_budget_every_step_is_taken(sampler: int) -> None:
    for noise in (Constant(), Linear(end=0.5)):
        parts = parts_of(SAMPLERS[sampler], noise, moves=True)
        plan = planned(parts, epsilon=3.0)
        assert (plan.steps, plan.ends_at) == (STEPS, "steps")
        check_paid(parts, plan)
        fixed = noise.model_copy(update={"noise_multiplier": 1.0})
        whole = planned(replace(parts, noise=fixed))
        assert plan.batches == whole.batches
