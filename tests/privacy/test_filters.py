"""Filters: capacities and costs against closed forms, and refusals of what has no proof."""

from __future__ import annotations

import math

import dp_accounting
import pytest
from dp_accounting import rdp
from hypothesis import given
from hypothesis import strategies as st

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.filters.filters import (
    AdvancedFilter,
    Amount,
    BasicFilter,
    Commitment,
    Filter,
    RdpFilter,
    ZcdpFilter,
    best_order,
    read_filter,
)

SAMPLED = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
epsilons = st.floats(0.05, 20)
deltas = st.floats(1e-10, 1e-2)


def run(
    steps: list[tuple[dp_accounting.DpEvent, int]], *, relation: str = "zero_out"
) -> Commitment:
    return Commitment(steps, relation, "example", 1.0, 1e-6)


def test_the_rdp_filter_allows_the_published_number_of_steps() -> None:
    """At (2, 1e-5), sample rate 0.01 and noise multiplier 1, order 7.9: 881 steps."""
    chosen = RdpFilter(order=7.9)
    capacity = chosen.capacity(epsilon=2.0, delta=1e-5)
    assert chosen.cost(run([(SAMPLED, 881)])).fits(capacity)
    assert not chosen.cost(run([(SAMPLED, 882)])).fits(capacity)


@given(epsilon=epsilons, delta=deltas, order=st.floats(1.5, 100))
def test_the_rdp_capacity_converts_back_to_epsilon(
    epsilon: float, delta: float, order: float
) -> None:
    capacity = RdpFilter(order=order).capacity(epsilon=epsilon, delta=delta).amount
    back = capacity + math.log1p(-1 / order) - math.log(order * delta) / (order - 1)
    assert back == pytest.approx(epsilon, rel=1e-9, abs=1e-9)
    if capacity > 0:
        assert rdp.compute_epsilon([order], [capacity], delta)[0] <= epsilon * (1 + 1e-9)


@given(epsilon=epsilons, delta=deltas)
def test_the_zcdp_capacity_is_at_least_that_of_the_simple_conversion_and_no_more_than_epsilon_allows(
    epsilon: float, delta: float
) -> None:
    rho = ZcdpFilter().capacity(epsilon=epsilon, delta=delta).amount
    if rho > 0:
        orders = [1 + 10 ** (x / 100) for x in range(-200, 600)]
        assert rdp.compute_epsilon(orders, [rho * order for order in orders], delta)[
            0
        ] <= epsilon * (1 + 1e-9)
    simple = (math.sqrt(epsilon + math.log(1 / delta)) - math.sqrt(math.log(1 / delta))) ** 2
    assert rho >= simple


@given(epsilon=epsilons, delta=deltas)
def test_the_advanced_capacity_solves_the_theorems_inequality(epsilon: float, delta: float) -> None:
    capacity = AdvancedFilter().capacity(epsilon=epsilon, delta=delta)
    used = math.sqrt(2 * math.log(2 / delta) * capacity.amount) + capacity.amount / 2
    assert used == pytest.approx(epsilon, rel=1e-9)
    assert capacity.delta == delta / 2


def test_certificates_add_up_as_they_are() -> None:
    assert BasicFilter().cost(run([])) == Amount(1.0, 1e-6)
    assert AdvancedFilter().cost(Commitment([], "zero_out", "example", 3.0, 1e-6)) == Amount(
        9.0, 1e-6
    )


@pytest.mark.parametrize("filter", [BasicFilter(), AdvancedFilter()])
@pytest.mark.parametrize(
    "certificate", [(math.inf, 1e-6), (math.nan, 1e-6), (-1.0, 1e-6), (1.0, math.nan), (1.0, 1.0)]
)
def test_a_certificate_that_is_no_bound_is_refused(
    filter: BasicFilter | AdvancedFilter, certificate: tuple[float, float]
) -> None:
    with pytest.raises(PrivacyRefusal):
        filter.cost(Commitment([], "zero_out", "example", *certificate))


def test_what_is_not_a_number_never_fits() -> None:
    assert not Amount(math.nan).fits(Amount(1.0))
    assert not Amount(math.inf).fits(Amount(1.0))
    assert not Amount(0.5, 1e-5).fits(Amount(1.0))


@pytest.mark.parametrize(
    ("relation", "rho"), [("zero_out", 1 / 8), ("add_remove", 1 / 8), ("replace_one", 1 / 2)]
)
def test_zcdp_of_a_gaussian_follows_the_relation(relation: str, rho: float) -> None:
    assert ZcdpFilter().cost(
        run([(dp_accounting.GaussianDpEvent(2.0), 3)], relation=relation)
    ).amount == pytest.approx(3 * rho)


def test_zcdp_refuses_sampled_steps() -> None:
    with pytest.raises(PrivacyRefusal, match="filter rdp"):
        ZcdpFilter().cost(run([(SAMPLED, 1)]))


def test_rdp_refuses_what_it_cannot_bound() -> None:
    with pytest.raises(PrivacyRefusal):
        RdpFilter(order=4.0).cost(
            run(
                [
                    (
                        dp_accounting.SampledWithReplacementDpEvent(
                            100, 10, dp_accounting.GaussianDpEvent(1.0)
                        ),
                        1,
                    )
                ]
            )
        )


@pytest.mark.parametrize(
    "filter", [RdpFilter(order=5.5), ZcdpFilter(), BasicFilter(), AdvancedFilter(set_aside=0.25)]
)
def test_filters_survive_being_written(filter: RdpFilter) -> None:
    assert read_filter(filter.to_data()) == filter


def test_the_order_for_a_typical_run_leaves_it_most_room() -> None:
    like = run([(SAMPLED, 100)])

    def steps(order: float) -> float:
        chosen = RdpFilter(order=order)
        return (
            chosen.capacity(epsilon=2.0, delta=1e-5).amount
            / chosen.cost(run([(SAMPLED, 1)])).amount
        )

    assert steps(best_order(epsilon=2.0, delta=1e-5, like=like)) > 0.99 * 881
    assert steps(best_order(epsilon=2.0, delta=1e-5)) > 0.8 * 881


@pytest.mark.parametrize(
    "chosen", [RdpFilter(order=6.0), ZcdpFilter(), BasicFilter(), AdvancedFilter()]
)
@given(epsilon=st.floats(0.5, 20), delta=st.floats(1e-9, 1e-3), share=st.floats(0.01, 1))
def test_what_is_used_converts_to_an_epsilon_as_the_capacity_does(
    chosen: Filter, epsilon: float, delta: float, share: float
) -> None:
    capacity = chosen.capacity(epsilon=epsilon, delta=delta)
    if capacity.amount <= 0:
        return
    assert chosen.epsilon(capacity, delta=delta) == pytest.approx(epsilon, rel=1e-6)
    used = Amount(share * capacity.amount, share * capacity.delta)
    assert chosen.epsilon(used, delta=delta) <= epsilon * (1 + 1e-6)
    back = chosen.capacity(epsilon=chosen.epsilon(used, delta=delta), delta=delta).amount
    assert back == pytest.approx(used.amount, rel=1e-6, abs=1e-9)
