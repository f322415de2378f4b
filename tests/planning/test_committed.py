"""What a plan commits to: a shared budget reserves every event that the plan's epsilon counts."""

from __future__ import annotations

import pytest

from dppipe.budgets.commitments import commit
from dppipe.clipping import Flat
from dppipe.data.reading.private_scaling import PrivateScaling
from dppipe.noise import Constant, Linear
from dppipe.optim.schedules import Linear as LinearFactor
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.sampling import Poisson, Shuffle

STATISTICS = (PrivateScaling(noise_multiplier=3.0),)
BUDGET = Budget(epsilon=8.0, delta=1e-5)
POISSON = Poisson(expected_batch_size=50)
GROWING = Poisson(expected_batch_size=50, batch_schedule=LinearFactor(end=0.5))
CONSTANT = Constant(noise_multiplier=2.0)
FALLING = Linear(noise_multiplier=3.0, end=0.5)

RUNS = {
    "steps alone": PrivateParts(POISSON, Flat(), CONSTANT, Rdp(), BUDGET),
    "statistics first": PrivateParts(POISSON, Flat(), CONSTANT, Rdp(), BUDGET, STATISTICS),
    "statistics and a noise schedule": PrivateParts(
        POISSON, Flat(), FALLING, Rdp(), BUDGET, STATISTICS
    ),
    "statistics and a batch schedule": PrivateParts(
        GROWING, Flat(), CONSTANT, Rdp(), BUDGET, STATISTICS
    ),
    "statistics and epochs": PrivateParts(
        Shuffle(expected_batch_size=50), Flat(), CONSTANT, Rdp(), BUDGET, STATISTICS
    ),
}


@pytest.mark.parametrize("parts", RUNS.values(), ids=RUNS.keys())
def test_what_a_run_reserves_costs_what_its_plan_claims(parts):
    plan = plan_privacy(parts, name="t", records=1000, steps=45)
    reserved = commit(plan, parts)
    cost = parts.accountant.compose(reserved.steps, relation="zero_out").epsilon(1e-5)
    assert cost == pytest.approx(plan.epsilon, rel=1e-9)
    assert plan.epsilon_after(0) < plan.epsilon <= BUDGET.epsilon
