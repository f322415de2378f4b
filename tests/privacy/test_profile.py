"""The profile that a plan keeps is never below the curve that it was read from."""

from __future__ import annotations

import dp_accounting
import numpy as np
import pytest

from dppipe.privacy.accountants import Pld, Rdp
from dppipe.privacy.tradeoff.blow_up import blow_up_of, blow_up_through
from dppipe.privacy.tradeoff.profile import (
    PROFILE,
    stated_profile,
    understates_cost,
    whole_curve_of,
)

STEP = dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(1.1))


@pytest.fixture(params=[Pld, Rdp], ids=["pld", "rdp"], scope="module")
def cost(request):
    return request.param().compose([(STEP, 60)], relation="zero_out")


def test_each_point_holds_and_epsilons_rise(cost):
    kept = whole_curve_of(cost, delta=1e-5)[PROFILE]
    assert kept["epsilons"][0] == 0
    assert all(np.diff(kept["epsilons"]) > 0)
    for epsilon, delta in zip(kept["epsilons"], kept["deltas"], strict=True):
        assert cost.delta(epsilon) <= delta <= 1


@pytest.mark.parametrize("keeps", [True, False], ids=["profile", "few points"])
def test_what_an_attacker_reaches_by_the_profile_is_never_understated(cost, keeps):
    curve = whole_curve_of(cost, delta=1e-5)
    if not keeps:
        del curve[PROFILE]
    profile = stated_profile(curve, epsilon=cost.epsilon(1e-5), delta=1e-5)
    assert profile is not None
    rates = np.geomspace(1e-4, 1, 50)
    stated = blow_up_through(*profile)(rates)
    exact = blow_up_of(cost.curve)(rates)
    assert (stated >= exact * (1 - 1e-9)).all()
    if keeps:
        assert (stated <= exact * 1.01).all()


def test_an_infinite_claim_has_no_profile():
    assert stated_profile({}, epsilon=float("inf"), delta=1e-5) is None


def test_a_profile_below_the_cost_is_noticed(cost):
    curve = whole_curve_of(cost, delta=1e-5)
    assert not understates_cost(curve, cost, delta=1e-5)
    assert not understates_cost({}, cost, delta=1e-5)
    curve[PROFILE]["deltas"][20] *= 0.99
    assert understates_cost(curve, cost, delta=1e-5)
