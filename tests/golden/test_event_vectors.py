"""Events beside noise, against dp_accounting, published numbers and closed forms."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event, rdp
from dp_accounting.pld import privacy_loss_distribution

from dppipe.privacy.accountants import Advanced, Basic, Pld, Rdp, Tcdp, Zcdp
from dppipe.privacy.accountants.base import Accountant
from dppipe.privacy.events.epsilon_delta import event_class as epsilon_delta
from dppipe.privacy.events.exponential_mechanism import event_class as exponential
from dppipe.privacy.rdp.divergences import ORDERS, divergences
from dppipe.privacy.selection.repetitions import Repetitions

DELTA = 1e-5
THEIRS = {
    "zero_out": dp_accounting.NeighboringRelation.REPLACE_SPECIAL,
    "add_remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace_one": dp_accounting.NeighboringRelation.REPLACE_ONE,
}


def cost(
    accountant: Accountant, event: dp_accounting.DpEvent, count: int = 1, relation: Any = "zero_out"
) -> float:
    composed = accountant.compose([(event, count)], relation=relation)
    assert composed.certified
    return composed.epsilon(DELTA)


def their_divergences(event: dp_accounting.DpEvent, relation: str) -> Any:
    accountant = rdp.RdpAccountant(list(ORDERS), THEIRS[relation])
    return np.asarray(accountant.compose(event).rdp)


@pytest.mark.parametrize(
    ("shape", "mean", "gamma"),
    [
        (0, 5, 0.069920314),
        (0, 10, 0.026918260),
        (0, 50, 0.003529444),
        (0.5, 10, 0.0625),
        (1, 10, 0.1),
        (2, 10, 0.170820393),
    ],
)
def test_gamma_of_a_number_of_repetitions(shape: float, mean: float, gamma: float) -> None:
    found = Repetitions(mean=mean, shape=shape).gamma
    assert found == pytest.approx(gamma, abs=1e-9)
    assert found <= gamma + 5e-10  # rounded so that the cost is rounded up


@pytest.mark.parametrize(
    ("z", "expected"),
    [
        (5.0, (1.4180, 1.7183, 2.0463)),
        (2.0, (3.6385, 4.3151, 5.1295)),
        (1.0, (7.4104, 8.5145, 10.1339)),
    ],
)
def test_the_best_of_several_gaussian_releases(z: float, expected: tuple[float, ...]) -> None:
    run = dp_accounting.GaussianDpEvent(z)
    for (shape, mean), epsilon in zip([(0, 10), (1, 10), (1, 50)], expected, strict=True):
        event = dp_accounting.dp_event.RepeatAndSelectDpEvent(run, mean, shape)
        assert cost(Rdp(), event) == pytest.approx(epsilon, abs=6e-5)
        assert divergences(
            dp_accounting.dp_event.RepeatAndSelectDpEvent(run, float(mean), float(shape)),
            relation="zero_out",
        ) == pytest.approx(their_divergences(event, "zero_out"), rel=1e-6)


@pytest.mark.parametrize(
    ("rate", "z", "steps", "negative_binomial", "poisson"),
    [
        (256 / 1438, 2.8332, 113, 6.1716, 5.7814),
        (0.01, 1.0, 1000, 4.1033, 3.5442),
        (0.01, 2.0, 1000, 1.4890, 1.2731),
    ],
)
def test_the_best_of_several_runs_of_dp_sgd(
    rate: float, z: float, steps: int, negative_binomial: float, poisson: float
) -> None:
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(z))
    run = dp_accounting.SelfComposedDpEvent(step, steps)
    for shape, expected in ((1.0, negative_binomial), (math.inf, poisson)):
        found = cost(Rdp(), dp_accounting.dp_event.RepeatAndSelectDpEvent(run, 10.0, shape))
        assert found == pytest.approx(expected, abs=6e-5)


def test_poisson_repetitions_of_one_gaussian_cost_less_than_by_its_divergences_alone() -> None:
    event = dp_accounting.dp_event.RepeatAndSelectDpEvent(
        dp_accounting.GaussianDpEvent(1.0), 10.0, math.inf
    )
    assert cost(Rdp(), event) == pytest.approx(8.4614, abs=6e-5)  # else 10.2108
    theirs = rdp.RdpAccountant(list(ORDERS)).compose(event).get_epsilon(DELTA)
    assert theirs == pytest.approx(10.2108, abs=1e-4)


@pytest.mark.parametrize(("shape", "factor"), [(0.0, 2.0), (0.5, 2.5), (1.0, 3.0)])
def test_selection_among_pure_runs(shape: float, factor: float) -> None:
    run = dp_accounting.ComposedDpEvent(
        [dp_accounting.LaplaceDpEvent(4.0), dp_accounting.LaplaceDpEvent(4.0)]
    )
    event = dp_accounting.dp_event.RepeatAndSelectDpEvent(run, 10.0, shape)
    assert cost(Basic(), event) == pytest.approx(factor * 0.5, rel=1e-12)
    assert cost(Basic(), event) >= factor * 0.5


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
@pytest.mark.parametrize(("p", "k"), [(0.5, 2), (0.1, 4), (0.9, 100), (0.999, 3), (1e-3, 2)])
def test_randomised_response_is_exact(p: float, k: int, relation: Any) -> None:
    event = dp_accounting.RandomizedResponseDpEvent(p, k)
    ours = divergences(event, relation=relation)
    theirs = their_divergences(event, relation)
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)
    assert (ours >= theirs * (1 - 1e-13) - 1e-15).all()
    discretised = privacy_loss_distribution.from_randomized_response(
        p, k, neighboring_relation=THEIRS[relation], value_discretization_interval=1e-4
    )
    own = np.full(k, p / k)
    own[0] += 1 - p
    other = np.roll(own, 1) if relation == "replace_one" else np.full(k, 1 / k)
    curve = Pld().compose([(event, 1)], relation=relation)
    for epsilon in (0.0, 0.01, 0.3, 1.0):
        ways = (own - math.exp(epsilon) * other, other - math.exp(epsilon) * own)
        exact = max(float(np.maximum(way, 0).sum()) for way in ways)
        assert curve.delta(epsilon) >= exact
        assert curve.delta(epsilon) <= exact * (1 + 1e-4) + 1e-12
        assert curve.delta(epsilon) <= discretised.get_delta_for_epsilon(epsilon) * 1.001 + 1e-12


@pytest.mark.parametrize(("rho", "xi"), [(0.01, 0.0), (0.5, 0.0), (0.02, 0.3), (0.0, 0.1)])
def test_concentrated_events_are_what_dp_accounting_says(rho: float, xi: float) -> None:
    event = dp_accounting.ZCDpEvent(rho, xi)
    for relation in THEIRS:
        ours = divergences(event, relation=relation)  # type: ignore[arg-type]
        assert ours == pytest.approx(their_divergences(event, relation), rel=1e-12)


def test_a_gaussian_that_is_known_by_its_rho_costs_as_much_by_rho() -> None:
    known = dp_accounting.ZCDpEvent(1 / 18, 0.0)
    noise = dp_accounting.GaussianDpEvent(3.0)
    for accountant in (Zcdp(), Tcdp(), Rdp()):
        assert cost(accountant, known, 7) == pytest.approx(cost(accountant, noise, 7), rel=1e-12)


def test_an_exponential_mechanism_is_an_eighth_of_its_square_in_zcdp() -> None:
    event = exponential()(0.2)
    for accountant in (Zcdp(), Tcdp(), Rdp()):
        known = cost(accountant, dp_event.ZCDpEvent(0.2**2 / 8, 0.0), 50)
        assert cost(accountant, event, 50) == pytest.approx(known, rel=1e-9)
    assert cost(Basic(), event, 50) == pytest.approx(10.0, rel=1e-12)


def test_known_epsilon_and_delta_add_up_by_the_textbook() -> None:
    event = epsilon_delta()(0.25, 1e-7)
    assert cost(Basic(), event, 8) == 2.0
    one = Basic().compose([(event, 1)], relation="zero_out")
    assert one.epsilon(2e-7) == 0.25
    assert one.epsilon(1e-8) == math.inf
    assert cost(Advanced(), event, 8) <= 2.0
