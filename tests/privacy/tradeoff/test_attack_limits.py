"""What any attacker can reach: vectors, an attack that reaches the limit, and broken values."""

from __future__ import annotations

import math

import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import special

from dppipe.errors import UsageError
from dppipe.privacy.accountants import Pld
from dppipe.privacy.accountants.base import Certificate
from dppipe.privacy.budget import Budget
from dppipe.privacy.gaussian import GaussianCurve, gaussian_scale
from dppipe.privacy.tradeoff.attack_limits import AttackLimits
from dppipe.privacy.tradeoff.limits_of_cost import limits_of_budget, limits_of_cost
from dppipe.privacy.tradeoff.one_point import OnePoint

RATES = (0.001, 0.01, 0.1)


def limits_of_curve(curve, delta=1e-5):
    return limits_of_cost(Certificate("pld", "zero_out", curve), delta=delta)


def rates_of(limits):
    return [limits.true_positive_rate(rate) for rate in RATES]


@pytest.mark.parametrize(
    ("epsilon", "rates", "advantage", "hit", "mu"),
    [
        (0.5, [0.00160, 0.01448, 0.12728], 0.05669, 0.000174, 0.142211),
        (1.0, [0.00238, 0.01978, 0.15541], 0.10662, 0.000279, 0.268051),
        (3.0, [0.00887, 0.05400, 0.28691], 0.28082, 0.001350, 0.719117),
        (8.0, [0.07719, 0.25453, 0.64969], 0.59516, 0.020037, 1.666031),
    ],
)
def test_a_gaussian_claim_leaves_what_the_vectors_say(epsilon, rates, advantage, hit, mu):
    limits = limits_of_curve(GaussianCurve(mu=1 / gaussian_scale(epsilon, 1e-5)))
    for found, known in zip(rates_of(limits), rates, strict=True):
        assert known - 5e-6 <= found <= known * 1.001 + 1e-5
    assert advantage - 1e-5 <= limits.advantage <= advantage * 1.001
    assert hit - 1e-6 <= limits.reconstruction[0].probability <= hit * 1.005
    assert mu <= limits.mu <= mu * 1.001


def test_a_sampled_run_leaves_what_the_vectors_say():
    step = PoissonSampledDpEvent(256 / 1438, GaussianDpEvent(2.8332))
    limits = limits_of_cost(Pld().compose([(step, 113)], relation="zero_out"), delta=1e-5)
    assert rates_of(limits) == pytest.approx([0.00853, 0.05166, 0.27621], rel=1e-3)
    assert limits.advantage == pytest.approx(0.26560, rel=1e-3)
    assert limits.reconstruction[0].probability == pytest.approx(0.001315, rel=1e-3)


def test_one_point_alone_leaves_what_the_vectors_say():
    limits = limits_of_curve(OnePoint(3.0, 1e-5))
    assert rates_of(limits) == pytest.approx([0.02010, 0.20087, 0.95519], rel=1e-3)
    assert limits.advantage == pytest.approx(0.90515, rel=1e-3)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.01, 5.0), st.floats(1e-9, 1e-3))
def test_no_test_between_two_gaussians_beats_a_limit(mu, delta):
    limits = limits_of_curve(GaussianCurve(mu=mu), delta=delta)
    for limit in limits.membership:
        best = special.ndtr(special.ndtri(limit.false_positive_rate) + mu)
        assert best <= limit.true_positive_rate <= best * 1.01
    for limit in limits.reconstruction:
        best = special.ndtr(special.ndtri(limit.prior) + mu)
        assert best <= limit.probability <= best * 1.01
    best = 2 * special.ndtr(mu / 2) - 1
    assert best <= limits.advantage <= best * 1.01
    assert mu <= limits.mu <= mu * 1.001


@pytest.mark.parametrize("scale", [0.2, 0.5, 1.0, 3.0])
def test_no_test_between_two_laplace_releases_beats_a_limit(scale):
    limits = limits_of_cost(
        Pld().compose([(LaplaceDpEvent(scale), 1)], relation="zero_out"), delta=1e-5
    )
    for limit in limits.membership:
        # The best test says "took part" above a threshold, here right of both centres.
        best = min(1.0, math.exp(1 / scale) * limit.false_positive_rate)
        if best <= 0.5:
            assert best <= limit.true_positive_rate * (1 + 1e-12)
    assert 1 - math.exp(-1 / (2 * scale)) <= limits.advantage


@settings(deadline=None, max_examples=40)
@given(st.floats(0.01, 20.0), st.floats(1e-9, 1e-3))
def test_limits_grow_with_what_is_accepted_and_stay_probabilities(epsilon, delta):
    limits = limits_of_curve(OnePoint(epsilon, delta), delta)
    rates = rates_of(limits)
    assert rates == sorted(rates)
    for limit in limits.membership:
        assert limit.false_positive_rate <= limit.true_positive_rate <= 1
        assert limit.true_positive_rate <= (limit.false_positive_rate + limits.advantage) * 1.001
    assert 0 <= limits.advantage <= 1


def test_a_budget_leaves_what_its_one_point_does():
    budget = Budget(epsilon=3.0, delta=1e-5)
    assert limits_of_budget(budget) == limits_of_curve(OnePoint(3.0, 1e-5))


def test_limits_understate_others_where_one_number_is_lower_or_missing():
    limits = limits_of_curve(GaussianCurve(mu=1.0))
    lower = limits_of_curve(GaussianCurve(mu=0.99))
    assert lower.understates(limits)
    assert not limits.understates(lower)
    assert not limits.understates(limits)
    unbounded = limits.model_copy(update={"mu": None})
    assert limits.understates(unbounded)
    assert not unbounded.understates(limits)
    assert limits.model_copy(update={"membership": ()}).understates(limits)
    assert limits.model_copy(update={"advantage": math.nan}).understates(limits)


def test_where_nothing_is_released_an_attacker_can_only_guess():
    limits = limits_of_cost(Pld().compose([], relation="zero_out"), delta=1e-5)
    assert rates_of(limits) == pytest.approx(RATES, rel=2e-3)
    assert (limits.advantage, limits.mu) == (0.0, 0.0)
    hits = [hit.probability for hit in limits.reconstruction]
    assert hits == pytest.approx([1e-4, 1e-2], rel=2e-3)


def test_a_claim_that_protects_nobody_has_no_mu():
    limits = limits_of_curve(OnePoint(60.0, 1e-5))
    assert rates_of(limits) == [1.0, 1.0, 1.0]
    assert limits.mu is None
    assert AttackLimits.model_validate_json(limits.model_dump_json()) == limits


def test_limits_read_back_from_json_and_refuse_other_names():
    limits = limits_of_curve(GaussianCurve(mu=1.0))
    assert AttackLimits.model_validate_json(limits.model_dump_json()) == limits
    with pytest.raises(ValidationError, match="extra"):
        AttackLimits.model_validate(limits.model_dump() | {"epsilon": 1.0})
    with pytest.raises(ValidationError, match="frozen"):
        limits.advantage = 0.0


def test_a_rate_that_is_not_listed_is_refused():
    limits = limits_of_curve(GaussianCurve(mu=1.0))
    with pytest.raises(UsageError, match=r"expected one of 0\.001, 0\.01, 0\.1, got 0\.5\."):
        limits.true_positive_rate(0.5)
