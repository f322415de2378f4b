"""What every accountant promises, whatever its method; the numbers themselves stand in tests/golden."""

from __future__ import annotations

import importlib
import math
from itertools import combinations
from typing import Any

import attr
import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants.base import Accountant, Certificate, Estimate, require_certificate
from dppipe.privacy.events.balls_in_bins import event_class
from dppipe.privacy.support import ACCOUNTANTS, SAMPLERS, verdict

RELATIONS = ("zero_out", "add_remove", "replace_one")
SAMPLING = ("pld", "rdp", "tcdp", "gdp", "advanced", "basic")
DELTA = 1e-5


def accountant(kind: str) -> Accountant:
    module = importlib.import_module(f"dppipe.privacy.accountants.{kind}")
    made: Accountant = getattr(module, kind.capitalize())()
    assert made.kind == kind
    return made


def gaussian(z: Any) -> dp_accounting.DpEvent:
    return dp_accounting.GaussianDpEvent(z)


def poisson(rate: float, z: Any) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(rate, gaussian(z))


def cost(
    kind: str,
    *steps: tuple[dp_accounting.DpEvent, int],
    delta: float = DELTA,
    relation: Any = "zero_out",
) -> float:
    return accountant(kind).compose(steps, relation=relation).epsilon(delta)


@pytest.fixture(params=ACCOUNTANTS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def release(kind: str, z: float = 4.0) -> dp_accounting.DpEvent:
    """An event that this accountant can bound: sampled where it knows sampling."""
    return poisson(0.05, z) if kind in SAMPLING else gaussian(z)


@pytest.mark.parametrize("relation", RELATIONS)
def test_nothing_costs_nothing(kind: str, relation: Any) -> None:
    for steps in ([], [(gaussian(1.0), 0)], [(dp_accounting.NoOpDpEvent(), 5)]):
        composed = accountant(kind).compose(steps, relation=relation)
        assert composed.epsilon(DELTA) == 0
        assert composed.delta(0.0) == 0


@settings(max_examples=8, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("kind", ACCOUNTANTS)
def test_more_noise_fewer_steps_and_larger_delta_never_cost_more(
    kind: str, data: st.DataObject
) -> None:
    z = data.draw(st.floats(0.8, 20.0))
    more = data.draw(st.floats(1.0, 3.0))
    steps = data.draw(st.integers(1, 500))
    delta = data.draw(st.floats(1e-8, 1e-3))
    base = cost(kind, (release(kind, z), steps), delta=delta)
    slack = 1e-6 + 1e-3 * base  # grids of orders and losses
    assert cost(kind, (release(kind, more * z), steps), delta=delta) <= base + slack
    assert cost(kind, (release(kind, z), 2 * steps), delta=delta) >= base - slack
    assert cost(kind, (release(kind, z), steps), delta=10 * delta) <= base + slack


@settings(max_examples=8, deadline=None)
@given(z=st.floats(0.8, 10.0), rate=st.floats(0.001, 0.4), steps=st.integers(1, 300))
@pytest.mark.parametrize("kind", SAMPLING)
def test_a_higher_rate_never_costs_less_and_rate_1_is_no_sampling(
    kind: str, z: float, rate: float, steps: int
) -> None:
    base = cost(kind, (poisson(rate, z), steps))
    assert cost(kind, (poisson(min(1.0, 2 * rate), z), steps)) >= base - 1e-6 - 1e-3 * base
    assert cost(kind, (poisson(1.0, z), steps)) == cost(kind, (gaussian(z), steps))


def test_order_and_grouping_of_steps_are_irrelevant(kind: str) -> None:
    a, b = release(kind, 2.0), release(kind, 5.0)
    apart = cost(kind, (a, 3), (b, 7), (a, 4))
    assert cost(kind, (b, 7), (a, 7)) == pytest.approx(apart, rel=1e-9)
    assert cost(kind, (dp_accounting.SelfComposedDpEvent(a, 7), 1), (b, 7)) == pytest.approx(
        apart, rel=1e-9
    )
    assert cost(kind, (dp_accounting.ComposedDpEvent([a] * 7 + [b] * 7), 1)) == pytest.approx(
        apart, rel=1e-9
    )


def test_curve_is_what_composing_each_prefix_says(kind: str) -> None:
    a, b = release(kind, 2.0), release(kind, 5.0)
    steps = [(a, 3), (b, 40), (a, 20)]
    curve = accountant(kind).curve(steps, [0, 1, 3, 10, 43, 63], delta=DELTA, relation="zero_out")
    prefixes: list[list[tuple[dp_accounting.DpEvent, int]]] = [
        [], [(a, 1)], [(a, 3)], [(a, 3), (b, 7)], [(a, 3), (b, 40)], [(a, 3), (b, 40), (a, 20)],
    ]  # fmt: skip
    assert curve == pytest.approx([cost(kind, *prefix) for prefix in prefixes], rel=2e-3, abs=1e-9)
    assert curve[-1] == pytest.approx(cost(kind, *steps), rel=1e-9)
    assert curve == sorted(curve)


def test_curve_refuses_more_steps_than_there_are_and_a_wrong_order(kind: str) -> None:
    for at in ([6], [3, 2]):
        with pytest.raises(PrivacyRefusal):
            accountant(kind).curve([(release(kind), 5)], at, delta=DELTA, relation="zero_out")


@pytest.mark.parametrize("multiplier", [math.nan, math.inf, 0.0, -1.0, True, "1.0", None])
def test_a_multiplier_that_is_no_positive_number_is_refused(kind: str, multiplier: Any) -> None:
    inner: dp_accounting.DpEvent = gaussian(multiplier)
    for event in (
        inner,
        dp_accounting.PoissonSampledDpEvent(0.01, inner),
        dp_accounting.SelfComposedDpEvent(inner, 3),
    ):
        with pytest.raises(PrivacyRefusal):
            accountant(kind).compose([(event, 10)], relation="zero_out")


def test_integers_and_numpy_numbers_are_read_as_floats(kind: str) -> None:
    wrap = poisson if kind in SAMPLING else lambda _, z: gaussian(z)
    expected = cost(kind, (wrap(0.01, 2.0), 100))
    for multiplier in (2, np.float32(2), np.float64(2), np.int64(2)):
        assert cost(kind, (wrap(0.01, multiplier), 100)) == expected


@pytest.mark.parametrize("count", [-1, 1.5, True, math.nan, "3"])
def test_a_number_of_steps_that_is_no_count_is_refused(kind: str, count: Any) -> None:
    with pytest.raises(PrivacyRefusal):
        accountant(kind).compose([(release(kind), count)], relation="zero_out")


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 2.0, math.nan, True])
def test_a_delta_outside_0_and_1_is_refused(kind: str, delta: float) -> None:
    with pytest.raises(PrivacyRefusal):
        accountant(kind).compose([(release(kind), 1)], relation="zero_out").epsilon(delta)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5, math.nan])
def test_a_rate_outside_0_and_1_is_refused(kind: str, rate: float) -> None:
    with pytest.raises(PrivacyRefusal):
        accountant(kind).compose([(poisson(rate, 1.0), 1)], relation="zero_out")


@pytest.mark.parametrize(
    "event",
    [
        dp_accounting.UnsupportedDpEvent(),
        dp_accounting.NonPrivateDpEvent(),
        dp_accounting.dp_event.DiscreteLaplaceDpEvent(0.5, 1),
        dp_accounting.dp_event.SingleEpochTreeAggregationDpEvent(1.0, 8),
        dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.ZCDpEvent(0.1, 0.0)),
        dp_accounting.PoissonSampledDpEvent(
            0.1, dp_accounting.PoissonSampledDpEvent(0.1, gaussian(1.0))
        ),
        dp_accounting.PoissonSampledDpEvent(
            0.1, dp_accounting.ComposedDpEvent([gaussian(1.0), dp_accounting.LaplaceDpEvent(1.0)])
        ),
        dp_accounting.SampledWithoutReplacementDpEvent(10, 20, gaussian(1.0)),
        "GaussianDpEvent",
    ],
)
def test_an_event_that_is_not_known_is_refused(kind: str, event: Any) -> None:
    for relation in RELATIONS:
        with pytest.raises(PrivacyRefusal):
            accountant(kind).compose([(event, 1)], relation=relation)  # type: ignore[arg-type]


def test_epsilon_and_delta_are_inverse(kind: str) -> None:
    composed = accountant(kind).compose([(release(kind), 200)], relation="zero_out")
    for delta in (1e-4, 1e-6, 1e-8):
        assert composed.delta(composed.epsilon(delta)) == pytest.approx(delta, rel=2e-2)


def test_certificates_and_estimates_are_different_types(kind: str) -> None:
    whole = accountant(kind).compose([(gaussian(4.0), 10)], relation="zero_out")
    assert isinstance(whole, Certificate)
    assert whole.certified
    assert require_certificate(whole) is whole
    if kind == "gdp":
        sampled = accountant(kind).compose([(poisson(0.1, 4.0), 10)], relation="zero_out")
        assert isinstance(sampled, Estimate)
        assert not isinstance(sampled, Certificate)
        assert not sampled.certified
        with pytest.raises(PrivacyRefusal, match="estimate"):
            require_certificate(sampled)


def test_points_of_the_curve_are_finite_plain_data_that_falls_with_delta(kind: str) -> None:
    points = accountant(kind).compose([(release(kind), 50)], relation="zero_out").points()
    assert points["deltas"] == sorted(points["deltas"], reverse=True)
    assert points["epsilons"] == sorted(points["epsilons"])
    assert all(
        math.isfinite(value)
        for values in points.values()
        if isinstance(values, list)
        for value in values
    )


@pytest.mark.parametrize("z", [1.0, 40.0, 3e3, 3e5])
def test_no_point_of_the_whole_curve_is_below_what_was_proven(kind: str, z: float) -> None:
    composed = accountant(kind).compose([(release(kind, z), 50)], relation="zero_out")
    points = composed.points()
    for delta, stated in zip(points["deltas"], points["epsilons"], strict=True):
        proven = composed.epsilon(delta)
        assert proven <= stated <= proven * (1 + 1e-4)


def mixed(kind: str) -> list[tuple[dp_accounting.DpEvent, int]]:
    """Steps of several kinds, as far as the accountant knows them."""
    steps = [(poisson(0.05, 4.0), 40), (gaussian(30.0), 1), (poisson(0.2, 8.0), 10)]
    steps += [(dp_accounting.LaplaceDpEvent(90.0), 2), (gaussian(12.0), 3)]
    known = []
    for event, count in steps:
        try:
            accountant(kind).compose([(event, count)], relation="zero_out")
        except PrivacyRefusal:
            continue
        known.append((event, count))
    return known


def test_steps_of_several_kinds_cost_the_same_in_any_order_and_no_less_than_one_kind_alone(
    kind: str,
) -> None:
    for first, second in combinations(mixed(kind), 2):
        try:
            together = cost(kind, first, second)
        except PrivacyRefusal:
            continue
        assert cost(kind, second, first) == pytest.approx(together, rel=1e-9)
        alone = max(cost(kind, first), cost(kind, second))
        assert together >= alone * (1 - 1e-3), (first, second)


EVENTS = {
    "poisson": poisson(0.1, 4.0),
    "user": poisson(0.1, 4.0),
    "truncated_poisson": dp_accounting.TruncatedSubsampledGaussianDpEvent(1000, 0.1, 160, 4.0),
    "without_replacement": dp_accounting.SampledWithoutReplacementDpEvent(1000, 100, gaussian(4.0)),
    "with_replacement": dp_accounting.SampledWithReplacementDpEvent(1000, 100, gaussian(4.0)),
    "shuffle": gaussian(4.0),
    "balls_in_bins": event_class()(10, gaussian(4.0)),
    "full_batch": gaussian(4.0),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_accountants_do_what_the_support_matrix_says(
    kind: str, sampler: str, relation: Any
) -> None:
    status = verdict(sampler=sampler, relation=relation, accountant=kind).status
    if sampler == "shuffle" and relation == "add_remove":
        assert (
            status == "refused"
        )  # for what the number of steps shows, which an event doesn't know
        return
    if status == "refused":
        with pytest.raises(PrivacyRefusal):
            accountant(kind).compose([(EVENTS[sampler], 3)], relation=relation)
        return
    composed = accountant(kind).compose([(EVENTS[sampler], 3)], relation=relation)
    assert status == ("certified" if composed.certified else "estimate")
    assert 0 < composed.epsilon(DELTA) < math.inf


@settings(max_examples=6, deadline=None)
@given(
    z=st.floats(0.7, 8.0), rate=st.sampled_from([0.002, 0.01, 0.1, 0.5]), steps=st.integers(1, 400)
)
def test_tighter_accountants_are_tighter(z: float, rate: float, steps: int) -> None:
    costs = {
        kind: cost(kind, (poisson(rate, z), steps))
        for kind in ("pld", "rdp", "tcdp", "advanced", "basic")
    }
    assert costs["pld"] <= min(costs.values()) + 1e-3
    assert costs["advanced"] <= costs["basic"] + 1e-9


@settings(max_examples=15, deadline=None)
@given(z=st.floats(0.5, 30.0), steps=st.integers(1, 200), relation=st.sampled_from(RELATIONS))
def test_no_certificate_is_below_the_exact_gaussian(z: float, steps: int, relation: Any) -> None:
    exact = cost("gdp", (gaussian(z), steps), relation=relation)
    for kind in ACCOUNTANTS:
        assert cost(kind, (gaussian(z), steps), relation=relation) >= exact * (1 - 1e-9)


@pytest.mark.parametrize("other", ["zero_out", "add_remove"])
def test_replacing_a_record_costs_more_than_removing_one(kind: str, other: Any) -> None:
    assert cost(kind, (gaussian(4.0), 5), relation="replace_one") > cost(
        kind, (gaussian(4.0), 5), relation=other
    )


@pytest.mark.parametrize(
    "event",
    [gaussian(1e-3), gaussian(1e5), poisson(1e-9, 0.01), poisson(0.999, 0.1), poisson(1e-4, 1e4)],
)
def test_extreme_events_get_a_number_without_warnings(
    kind: str, event: dp_accounting.DpEvent
) -> None:
    if kind == "zcdp" and hasattr(event, "event"):
        return
    composed = accountant(kind).compose([(event, 1000)], relation="zero_out")
    assert composed.epsilon(1e-6) >= 0
    assert 0 <= composed.delta(1.0) <= 1


def test_extreme_laplace_noise_gets_a_number_without_warnings(kind: str) -> None:
    if kind == "gdp":
        return
    for scale in (1e-3, 1e5):
        assert cost(kind, (dp_accounting.LaplaceDpEvent(scale), 10)) >= 0


def test_replacing_a_record_halves_laplace_noise_too(kind: str) -> None:
    """Whoever takes a record's place moves a sum by two bounds, in the L1 norm as in the Euclidean one."""
    if kind == "gdp":
        return
    replaced = cost(kind, (dp_accounting.LaplaceDpEvent(10.0), 7), relation="replace_one")
    assert replaced == pytest.approx(cost(kind, (dp_accounting.LaplaceDpEvent(5.0), 7)), rel=1e-9)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "sampler",
    ["poisson", "user", "full_batch", "without_replacement", "with_replacement", "balls_in_bins"],
)
def test_accountants_do_what_the_support_matrix_says_of_laplace_noise(
    kind: str, sampler: str, relation: Any
) -> None:
    laplace = dp_accounting.LaplaceDpEvent(4.0)
    event = (
        attr.evolve(EVENTS[sampler], event=laplace)
        if hasattr(EVENTS[sampler], "event")
        else laplace
    )
    if (
        verdict(sampler=sampler, relation=relation, accountant=kind, mechanism="laplace").status
        == "refused"
    ):
        with pytest.raises(PrivacyRefusal):
            accountant(kind).compose([(event, 3)], relation=relation)
    else:
        composed = accountant(kind).compose([(event, 3)], relation=relation)
        assert composed.certified
        assert 0 < composed.epsilon(DELTA) < math.inf
