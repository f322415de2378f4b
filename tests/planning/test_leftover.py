"""Budgets that earlier runs have nearly spent: refused with numbers, never planned as noise."""

from __future__ import annotations

import re
from typing import Any

import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent

from dppipe.clipping.flat import Flat
from dppipe.errors import PrivacyRefusal
from dppipe.noise.constant import Constant
from dppipe.planning.earlier.runs import ChargedEvent, Earlier, EarlierRun
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.events.plain import event_to_data
from dppipe.sampling.poisson import Poisson


def planned(epsilon: float, earlier: Earlier | None = None, *, noise: Any = "auto") -> StepPlan:
    parts = PrivateParts(
        Poisson(sample_rate=0.05),
        Flat(),
        Constant(noise_multiplier=noise),
        Rdp(),
        Budget(epsilon=epsilon, delta=1e-5),
        earlier=earlier,
    )
    return plan_privacy(parts, name="later", records=2000, steps=60)


def weights_of(plan: StepPlan, *, records: Any = "same") -> Earlier:
    """Return what a later run starts from if it takes the weights of this plan's run."""
    event = PoissonSampledDpEvent(0.05, GaussianDpEvent(plan.noise_multiplier(1)))
    run = EarlierRun(
        run="a",
        run_dir="runs/a",
        ledger_head="00",
        relation="zero_out",
        unit="example",
        events=(ChargedEvent(event=event_to_data(event), count=plan.steps),),
    )
    return Earlier(records=records, runs=(run,))


def test_a_spent_budget_is_refused_with_the_one_that_leaves_the_noise_as_it_was() -> None:
    first = planned(3.0)
    assert first.epsilon is not None
    assert 2.99 < first.epsilon < 3.0
    with pytest.raises(PrivacyRefusal, match=r"cost 3 at delta 1e-05 .* is left") as refusal:
        planned(3.0, weights_of(first))
    (advised,) = re.findall(r"Raise budget\.epsilon to ([\d.]+),", str(refusal.value))
    later = planned(float(advised), weights_of(first))
    assert (
        later.noise_multiplier(1) <= first.noise_multiplier(1) <= 1.02 * later.noise_multiplier(1)
    )


def test_what_is_left_of_a_budget_is_planned_for() -> None:
    earlier = weights_of(planned(2.0))
    assert planned(3.0, earlier).noise_multiplier(1) > planned(3.0).noise_multiplier(1)


def test_noise_that_is_stated_is_planned_for_as_long_as_a_step_fits() -> None:
    earlier = weights_of(planned(2.99))
    assert planned(3.0, earlier, noise=40.0).steps == 60
    with pytest.raises(PrivacyRefusal, match=r"Raise budget\.epsilon to"):
        planned(2.9, earlier, noise=40.0)


def test_disjoint_records_leave_the_whole_budget() -> None:
    first = planned(3.0)
    later = planned(3.0, weights_of(first, records="disjoint"))
    assert later.noise_multiplier(1) == pytest.approx(first.noise_multiplier(1), rel=1e-6)
