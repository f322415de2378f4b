"""Plans: the numbers that a run commits to, before a record is read."""

from __future__ import annotations

import itertools
import time
from typing import ClassVar

import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent

from dppipe.cli.plan import plan_text
from dppipe.clipping import Flat, Jl
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.noise import Constant, Exponential, Linear
from dppipe.optim import schedules
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.accountants import Advanced, Gdp, Pld, Rdp, Zcdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.events.sequences import first
from dppipe.privacy.preludes import with_prelude
from dppipe.privacy.support import verdict
from dppipe.runs.statement.claims import guarantee_of_plan
from dppipe.sampling import (
    BallsInBins,
    FullBatch,
    Poisson,
    Shuffle,
    TruncatedPoisson,
    User,
    WithoutReplacement,
    WithReplacement,
)


def plan(*, sampler=None, noise=None, accountant=None, budget=None, records=10_000, **length):
    parts = PrivateParts(
        sampler or Poisson(sample_rate=0.01),
        Flat(),
        noise or Constant(noise_multiplier=1.0),
        accountant or Rdp(),
        budget or Budget(epsilon=2.0, delta=1e-5),
    )
    return plan_privacy(parts, name="t", records=records, **length)


def test_a_plan_never_exceeds_its_budget_at_any_step():
    made = plan(steps=100, noise=Linear(end=0.5))
    epsilons = [made.epsilon_after(step) for step in range(101)]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] == 0
    assert epsilons[-1] == made.epsilon <= 2.0


def test_epsilon_after_a_step_is_never_below_what_that_many_steps_cost():
    made = plan(steps=100)
    for step in (1, 7, 50, 99, 100):
        assert made.epsilon_after(step) >= plan(steps=step).epsilon - 1e-12


def test_the_run_ends_at_whichever_comes_first():
    assert (plan(steps=100).steps, plan(steps=100).ends_at) == (100, "steps")
    assert (plan(steps=5000).steps, plan(steps=5000).ends_at) == (881, "budget")
    assert plan().steps == 881


def test_epochs_are_steps_over_the_rate():
    assert plan(epochs=3).steps == 300
    assert plan(epochs=3, sampler=FullBatch(), noise=Constant(noise_multiplier=10.0)).steps == 3


def test_a_schedule_with_auto_keeps_its_shape_and_lands_on_the_budget():
    made = plan(steps=50, noise=Linear(end=0.5))
    first, last = made.noise_multiplier(1), made.noise_multiplier(50)
    assert last / first == pytest.approx(0.5)
    assert 1.99 < made.epsilon <= 2.0


class Unrounded(Rdp, kind="rdp"):
    """The same without a limit on distinct events."""

    distinct: ClassVar[int | None] = None


@pytest.mark.parametrize("end", [0.5, 2.0])
def test_a_plan_says_at_most_what_rounding_a_long_schedule_costs(end):
    noise = Linear(noise_multiplier=2.0, end=end)
    rounded, exact = (
        plan(steps=400, noise=noise, accountant=each) for each in (Rdp(), Unrounded())
    )
    assert 0 < rounded.epsilon - exact.epsilon <= rounded.rounding_cost < 0.03 * exact.epsilon
    assert rounded.whole_curve["rounding_cost"] == rounded.rounding_cost
    assert "noise multipliers are accounted as fewer" in plan_text(rounded)


@pytest.mark.slow
@pytest.mark.parametrize("multiplier", [1.0, "auto"])
def test_ten_thousand_noise_multipliers_are_planned_in_seconds(multiplier):
    started = time.process_time()
    noise = Exponential(noise_multiplier=multiplier, end=0.5)
    made = plan(steps=10_000, noise=noise, accountant=Pld(), budget=Budget(epsilon=8.0, delta=1e-5))
    assert time.process_time() - started < 20
    assert len(made.noise) == made.steps > 5000
    assert 0 < made.rounding_cost < 0.02 * made.epsilon


@pytest.mark.parametrize("end", [0.25, 3.0])
def test_epochs_of_growing_and_shrinking_batches_draw_each_record_that_often(end):
    growing = Poisson(sample_rate=0.01, batch_schedule=schedules.Linear(end=end))
    parts = PrivateParts(growing, Flat(), Constant(), Rdp(), Budget(epsilon=2.0, delta=1e-5))
    made = plan_privacy(parts, name="t", records=10_000, epochs=5)
    draws = [made.batch(step).sample_rate for step in range(1, made.steps + 1)]
    assert sum(draws) == pytest.approx(5, abs=2 * max(draws))


def said(made):
    return " ".join(plan_text(made).split())


def test_a_plan_shows_where_rate_size_and_bound_begin_and_end():
    growing = Poisson(sample_rate=0.01, batch_schedule=schedules.Linear(end=3.0))
    shrinking = Flat(max_grad_norm=2.0, bound_schedule=schedules.Linear(end=0.5))
    parts = PrivateParts(growing, shrinking, Constant(), Rdp(), Budget(epsilon=2.0, delta=1e-5))
    text = said(plan_privacy(parts, name="t", records=10_000, steps=100))
    assert (
        "sample rate 0.01 at first, 0.0298 at last; "
        "records a step on average: 100 at first, 298 at last" in text
    )
    assert "max_grad_norm 2 at first, 1.01 at last" in text
    still = said(plan(steps=10))
    assert "sample rate 0.01, 100 records a step on average" in still
    assert "at first" not in still


def test_a_plan_knows_where_batches_are_cut_off_or_of_one_size():
    cut = TruncatedPoisson(expected_batch_size=100, max_batch_size=120)
    made = plan(steps=2, sampler=cut, accountant=Pld(), noise=Constant(noise_multiplier=4.0))
    assert made.largest_likely_batch == 120 < plan(steps=2).largest_likely_batch
    fixed = plan(
        steps=2,
        sampler=WithoutReplacement(expected_batch_size=50),
        noise=Constant(noise_multiplier=4.0),
        budget=Budget(epsilon=2.0, delta=1e-5, relation="replace_one"),
    )
    assert "50 records a step batches never more than 50 records, and never empty" in said(fixed)


def test_a_short_schedule_is_not_rounded():
    made = plan(steps=100, noise=Linear(end=0.5))
    assert made.rounding_cost == 0
    assert "rounding" not in plan_text(made)


def test_rounding_costs_as_much_with_statistics_before_the_first_step():
    steps = [(PoissonSampledDpEvent(0.01, GaussianDpEvent(2 - t / 400)), 1) for t in range(400)]
    alone = Rdp().rounding_cost(steps, delta=1e-5, relation="zero_out")
    together = with_prelude(Rdp(), [(GaussianDpEvent(50.0), 1)]).rounding_cost(
        steps, delta=1e-5, relation="zero_out"
    )
    assert together == pytest.approx(alone, rel=0.5)
    assert together > 0


@pytest.mark.parametrize(
    ("sampler", "noise"),
    [(Poisson(sample_rate=0.01), Linear(end=0.5)), (Shuffle(expected_batch_size=1000), Constant())],
)
def test_an_odometer_claims_at_every_step_what_a_share_of_delta_proves(sampler, noise):
    """The shares of all points add up to delta, and no step is claimed for less than it cost."""
    made = plan(steps=105, sampler=sampler, noise=noise)
    assert 5 < len(made.odometer) <= 10
    shared = Budget(epsilon=100.0, delta=1e-5 / len(made.odometer))
    for step in range(1, made.steps + 1):
        events = PrivateParts(sampler, Flat(), noise, Rdp(), shared).committed(made)
        charges = sum(made.charges(done) for done in range(1, step + 1))
        cost = Rdp().compose(first(events, charges), relation="zero_out").epsilon(shared.delta)
        assert made.odometer_claim(step) >= cost * (1 - 1e-12)
    assert made.odometer_claim(made.steps) > made.epsilon
    assert made.odometer_claim(made.steps + 1) is None
    assert made.odometer_claim(10) < made.epsilon


def test_an_odometer_has_nothing_to_say_where_its_share_of_delta_is_used_up():
    parts = PrivateParts(
        Poisson(sample_rate=0.01),
        Jl(delta=5e-6),
        Constant(noise_multiplier=1.0),
        Rdp(),
        Budget(epsilon=4.0, delta=1e-5),
    )
    assert plan_privacy(parts, name="t", records=10_000, steps=100).odometer == ()


def test_under_add_remove_nothing_depends_on_the_number_of_records():
    sampler = Poisson(sample_rate=0.01, expected_batch_size=100)
    budget = Budget(epsilon=2.0, delta=1e-5, relation="add_remove")
    one, two = (
        plan(sampler=sampler, budget=budget, records=records, steps=10)
        for records in (5_000, 50_000)
    )
    assert one == two
    assert one.records is None


def test_a_plan_survives_its_json():
    made = plan(steps=20)
    assert StepPlan.from_json(made.to_json()) == made


def test_delta_of_one_over_records_is_refused():
    with pytest.raises(PrivacyRefusal, match="1/records"):
        plan(budget=Budget(epsilon=2.0, delta=1e-4), records=10_000)


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(UsageError, match="no larger"):
        plan(sampler=Poisson(expected_batch_size=200), records=100, steps=1)


class Following(Constant):
    adaptive: ClassVar[bool] = True

    def next_multiplier(self, history):
        return 1.0


SAMPLERS = {
    "poisson": Poisson(sample_rate=0.01, expected_batch_size=100),
    "truncated_poisson": TruncatedPoisson(expected_batch_size=100),
    "without_replacement": WithoutReplacement(expected_batch_size=100),
    "with_replacement": WithReplacement(expected_batch_size=100),
    "shuffle": Shuffle(expected_batch_size=100),
    "balls_in_bins": BallsInBins(expected_batch_size=100),
    "full_batch": FullBatch(),
    "user": User(sample_rate=0.01, expected_batch_size=100),
}


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("schedule", [Constant, Following])
def test_parts_made_in_python_are_refused_as_validation_refuses_them(sampler, mechanism, schedule):
    noise = schedule(noise_multiplier=50.0, mechanism=mechanism)
    for accountant, relation in itertools.product(
        [Rdp(), Zcdp(), Gdp(), Advanced()], ["zero_out", "add_remove", "replace_one"]
    ):
        asked = {"sampler": sampler.kind, "relation": relation, "accountant": accountant.kind}
        if verdict(**asked, adaptive=noise.adaptive, mechanism=mechanism).status != "certified":
            with pytest.raises(PrivacyRefusal):
                plan(
                    sampler=sampler,
                    noise=noise,
                    accountant=accountant,
                    budget=Budget(epsilon=500, delta=1e-5, relation=relation),
                    steps=4,
                )


def test_an_estimate_may_be_looked_at_but_not_committed_to():
    with pytest.raises(PrivacyRefusal, match="estimate"):
        plan(accountant=Gdp(), steps=10)
    made = plan(accountant=Gdp(), steps=10, allow_estimate=True)
    assert not made.certified
    assert "ESTIMATE" in guarantee_of_plan(made)[0]
