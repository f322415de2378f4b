"""Bounds of events beside noise are never below exact values, worked out by sums over outcomes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants import Advanced, Basic, Gdp, Pld, Rdp, Tcdp, Zcdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.events.balls_in_bins import event_class as balls_in_bins
from dppipe.privacy.events.base import event_names, noise_multiplier, rule_of
from dppipe.privacy.events.epsilon_delta import event_class as epsilon_delta
from dppipe.privacy.events.exponential_mechanism import event_class as exponential
from dppipe.privacy.events.plain import event_from_data, event_to_data
from dppipe.privacy.events.sequences import merge
from dppipe.privacy.filters.step_filters import step_filter
from dppipe.privacy.rdp.divergences import ORDERS, divergences

RELATIONS: tuple[Any, ...] = ("zero_out", "add_remove", "replace_one")
ACCOUNTANTS = (Pld, Rdp, Tcdp, Zcdp, Gdp, Advanced, Basic)
Gaussian = dp_accounting.GaussianDpEvent
Poisson = dp_accounting.PoissonSampledDpEvent
Select = dp_accounting.dp_event.RepeatAndSelectDpEvent
Response = dp_accounting.RandomizedResponseDpEvent


def exact_delta(p: NDArray[np.float64], q: NDArray[np.float64], epsilon: float) -> float:
    """Return the larger delta of two distributions over the same outcomes."""
    ways = (p - math.exp(epsilon) * q, q - math.exp(epsilon) * p)
    return max(float(np.maximum(way, 0).sum()) for way in ways)


def exact_divergence(p: NDArray[np.float64], q: NDArray[np.float64], order: float) -> float:
    """Return the larger Renyi divergence of two distributions over the same outcomes."""
    both = []
    for one, other in ((p, q), (q, p)):
        both.append(math.log(float((one**order * other ** (1 - order)).sum())) / (order - 1))
    return max(both)


def composed_delta(epsilon: float, delta: float, count: int, at: float) -> float:
    """Return the exact delta of several (epsilon, delta)-private mechanisms, all at their worst."""
    lies = np.arange(count + 1)
    truth = 1 / (1 + math.exp(-epsilon))
    chances = stats.binom.pmf(lies, count, 1 - truth)
    losses = (count - 2 * lies) * epsilon
    hidden = float(chances @ np.maximum(-np.expm1(np.minimum(at - losses, 0)), 0))
    return 1 - (1 - delta) ** count * (1 - hidden)


@pytest.mark.parametrize(
    ("epsilon", "delta", "count"),
    [(0.1, 1e-7, 20), (1.0, 1e-6, 3), (0.01, 0.0, 100), (3.0, 0.0, 2), (0.0, 1e-6, 5)],
)
def test_known_epsilon_and_delta_compose_as_their_worst_mechanism(
    epsilon: float, delta: float, count: int
) -> None:
    event = epsilon_delta()(epsilon, delta)
    for relation, accountant in itertools.product(RELATIONS, (Pld(), Advanced(), Basic())):
        curve = accountant.compose([(event, count)], relation=relation)
        for at in (0.0, 0.3 * count * epsilon, 0.7 * count * epsilon):
            exact = composed_delta(epsilon, delta, count, at)
            assert curve.delta(at) >= exact * (1 - 1e-12)
            if isinstance(accountant, Pld) and exact > 1e-8:
                assert curve.delta(at) <= exact * 1.01


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.3, 1.0, 5.0, 40.0, 800.0])
def test_divergences_of_pure_epsilon_are_those_of_its_worst_mechanism(epsilon: float) -> None:
    import mpmath

    found = divergences(epsilon_delta()(epsilon, 0.0), relation="zero_out")
    assert (found <= min(epsilon, 1e300) * (1 + 1e-12)).all()
    with mpmath.workdps(400):
        truth = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        for order, value in zip(ORDERS, found, strict=True):
            a = mpmath.mpf(order)
            moment = truth**a * (1 - truth) ** (1 - a) + (1 - truth) ** a * truth ** (1 - a)
            exact = mpmath.log(moment) / (a - 1)
            assert value >= exact
            assert value <= exact * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_no_exponential_mechanism_costs_more_than_it_is_charged(seed: int) -> None:
    """Scores of neighbours differ by at most 1 each; the outcomes are chosen at random."""
    generator = np.random.default_rng(seed)
    epsilon = float(generator.uniform(0.1, 4.0))
    size = int(generator.integers(2, 30))
    scores = generator.uniform(0, 10, size)
    moved = scores + generator.choice([-1.0, 1.0], size)
    p, q = (np.exp(epsilon * s / 2) / np.exp(epsilon * s / 2).sum() for s in (scores, moved))
    event = exponential()(epsilon)
    charged = divergences(event, relation="replace_one")
    for order, value in zip(ORDERS[:120], charged, strict=False):
        assert exact_divergence(p, q, order) <= value
    curve = Pld().compose([(event, 1)], relation="replace_one")
    rho = Zcdp().compose([(event, 1)], relation="replace_one").curve.parameters()["rho"]
    assert exact_divergence(p, q, 1.0001) <= rho * 1.0001
    for at in (0.0, 0.3 * epsilon, 0.8 * epsilon):
        assert exact_delta(p, q, at) <= curve.delta(at)


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
@pytest.mark.parametrize(("p", "k"), [(0.5, 2), (0.2, 3), (0.7, 10)])
def test_randomised_response_covers_every_accountant(p: float, k: int, relation: Any) -> None:
    own = np.full(k, p / k)
    own[0] += 1 - p
    other = np.roll(own, 1) if relation == "replace_one" else np.full(k, 1 / k)
    twice = [np.outer(one, one).ravel() for one in (own, other)]
    for accountant in (Pld(), Rdp(), Tcdp(), Zcdp(), Advanced(), Basic()):
        curve = accountant.compose([(Response(p, k), 2)], relation=relation)
        for at in (0.0, 0.2, 1.0):
            assert curve.delta(at) >= exact_delta(*twice, at) * (1 - 1e-12)
    for at in (0.0, 0.2, 1.0):
        exact = exact_delta(*twice, at)
        pld = Pld().compose([(Response(p, k), 2)], relation=relation).delta(at)
        assert pld <= exact * 1.001 + 1e-12


def selected(p: NDArray[np.float64], shape: float, gamma: float) -> NDArray[np.float64]:
    """Return the law of the best of K draws from p, whose last outcome is the best.

    It is the fall of K's generating function over the distribution function.
    """
    below = np.concatenate([[0.0], np.cumsum(p)])
    below[-1] = 1.0
    if shape == 0:
        values = np.log1p(-(1 - gamma) * below) / math.log(gamma)
    else:
        values = ((1 - (1 - gamma) * below) ** -shape - 1) / (gamma**-shape - 1)
    return np.diff(values)


@pytest.mark.parametrize(("shape", "mean", "gamma"), [(0, 10, 0.026918260), (1, 10, 0.1)])
@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_no_order_of_outcomes_costs_a_selection_more_than_it_is_charged(
    mu: float, shape: float, mean: float, gamma: float
) -> None:
    """A Gaussian release in 400 cells, of which the best is selected by several rules."""
    edges = np.concatenate([[-np.inf], np.linspace(-6, 6 + mu, 399), [np.inf]])
    p = np.diff(stats.norm.cdf(edges, mu))
    q = np.diff(stats.norm.cdf(edges))
    charged = Rdp().compose(
        [(Select(Gaussian(1 / mu), float(mean), float(shape)), 1)], relation="zero_out"
    )
    cells = np.arange(len(p))
    rules = [cells, -cells, np.abs(cells - 200), -np.abs(cells - 200)]
    for rule in rules:
        order = np.argsort(rule)
        laws = [selected(one[order], shape, gamma) for one in (p, q)]
        for at in (0.5, 1.0, 3.0):
            assert exact_delta(*laws, at) <= charged.delta(at)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_selection_among_pure_runs_is_charged_enough_and_attained_nearly(epsilon: float) -> None:
    """A rare outcome is likelier by e^epsilon, and those that beat it are rarer by as much."""
    grown = math.exp(epsilon)
    middle, top = 1e-6, 1e-2
    laws = []
    for rare, best in ((middle * grown, top), (middle, top * grown)):
        laws.append(selected(np.array([1 - rare - best, rare, best]), 1.0, 1e-6))
    loss = float(np.abs(np.log(laws[0] / laws[1])).max())
    event = Select(epsilon_delta()(epsilon, 0.0), 1e6, 1.0)
    charged = Basic().compose([(event, 1)], relation="zero_out").epsilon(1e-5)
    assert charged == pytest.approx(3 * epsilon)
    assert 0.99 * charged <= loss <= charged


EVENTS = {
    "EpsilonDeltaDpEvent": epsilon_delta()(0.3, 1e-7),
    "ZCDpEvent": dp_accounting.ZCDpEvent(0.01, 0.2),
    "ExponentialMechanismDpEvent": exponential()(0.3),
    "RandomizedResponseDpEvent": Response(0.4, 3),
    "RepeatAndSelectDpEvent": Select(Poisson(0.1, Gaussian(2.0)), 5.0, math.inf),
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_events_go_through_plain_data_and_merge_unchanged(event: dp_accounting.DpEvent) -> None:
    import json

    data = json.loads(json.dumps(event_to_data(event), allow_nan=False))
    assert event_from_data(data) == event
    assert merge([(event, 3)]) == {event: 3}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_an_accountant_without_a_proof_refuses_and_names_one_with(
    event: dp_accounting.DpEvent, relation: Any
) -> None:
    rule = rule_of(event)
    known = [kind for kind in ACCOUNTANTS if rule.proof(kind().kind, event, relation=relation)]
    for kind in ACCOUNTANTS:
        if kind in known:
            assert kind().compose([(event, 2)], relation=relation).epsilon(1e-5) > 0
            continue
        with pytest.raises(PrivacyRefusal, match=f"no proof for .* under {relation}") as refusal:
            kind().compose([(event, 2)], relation=relation)
        text = str(refusal.value)
        assert text.startswith(f"accountant {kind().kind}: ")
        assert all(other().kind in text for other in known)
        assert known or "no accountant has one" in text


@pytest.mark.parametrize(
    "event",
    [
        epsilon_delta()(-0.1, 0.0),
        epsilon_delta()(0.1, 1.0),
        epsilon_delta()(math.nan, 0.0),
        epsilon_delta()(0.1, -1e-9),
        epsilon_delta()(math.inf, 0.0),
        exponential()(0.0),
        exponential()(math.inf),
        exponential()(True),
        dp_accounting.ZCDpEvent(-0.1, 0.0),
        dp_accounting.ZCDpEvent(0.1, math.nan),
        Response(1.5, 2),
        Response(0.0, 2),
        Response(0.5, 2.5),
        Response(1.0, -2),
        Select(Gaussian(1.0), 0.5, 1.0),
        Select(Gaussian(1.0), 10.0, -0.5),
        Select(Gaussian(1.0), math.inf, 1.0),
        Select(Gaussian(1.0), 10.0, math.nan),
        Select(Gaussian(math.nan), 10.0, 1.0),
        Select(dp_accounting.NonPrivateDpEvent(), 10.0, 1.0),
    ],
)
def test_events_with_numbers_out_of_range_are_refused(event: dp_accounting.DpEvent) -> None:
    with pytest.raises(PrivacyRefusal):
        merge([(event, 1)])


def test_what_releases_nothing_costs_nothing() -> None:
    silent = [
        epsilon_delta()(0.0, 0.0),
        dp_accounting.ZCDpEvent(0.0, 0.0),
        Response(0.3, 1),
        Response(1.0, 5),
        Select(dp_accounting.NoOpDpEvent(), 5.0, 1.0),
    ]
    for event in silent:
        assert merge([(event, 3)]) == {}


def test_one_run_for_certain_is_no_selection() -> None:
    assert merge([(Select(Gaussian(2.0), 1.0, 0.0), 3)]) == {Gaussian(2.0): 3}
    twice = dp_accounting.ComposedDpEvent([Gaussian(2.0), Gaussian(2.0)])
    (event,) = merge([(Select(twice, 4.0, 0.0), 1)])
    assert event.event == dp_accounting.SelfComposedDpEvent(Gaussian(2.0), 2)


@pytest.mark.parametrize("kind", ["rdp", "zcdp", "tcdp", "advanced"])
def test_filters_admit_selections_that_follow_releases(kind: str) -> None:
    event = exponential()(0.1)
    admitted = step_filter(kind, budget=Budget(epsilon=1, delta=1e-5), planned=[(event, 20)])
    assert admitted.fits(event)
    assert not admitted.fits(exponential()(50.0))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Gaussian(1.7), 1.7),
        (dp_accounting.LaplaceDpEvent(0.3), 0.3),
        (Poisson(0.01, Gaussian(1.1)), 1.1),
        (dp_accounting.SampledWithoutReplacementDpEvent(100, 10, Gaussian(2.3)), 2.3),
        (dp_accounting.SampledWithReplacementDpEvent(100, 10, Gaussian(2.3)), 2.3),
        (dp_accounting.TruncatedSubsampledGaussianDpEvent(100, 0.1, 30, 0.9), 0.9),
        (balls_in_bins()(10, Gaussian(4.2)), 4.2),
        (dp_accounting.SelfComposedDpEvent(Poisson(0.1, Gaussian(5.5)), 7), 5.5),
    ],
)
def test_the_noise_to_draw_is_the_very_number_that_is_charged(
    event: dp_accounting.DpEvent, expected: float
) -> None:
    assert noise_multiplier(event) == expected


@pytest.mark.parametrize(
    "event",
    [
        *EVENTS.values(),
        dp_accounting.NoOpDpEvent(),
        dp_accounting.ComposedDpEvent([Gaussian(1.0), Gaussian(2.0)]),
        Poisson(0.1, dp_accounting.ComposedDpEvent([Gaussian(1.0), Gaussian(2.0)])),
        dp_accounting.dp_event.MixtureOfGaussiansDpEvent(1.0, (0.0, 1.0), (0.5, 0.5)),
        dp_accounting.NonPrivateDpEvent(),
        *(Gaussian(z) for z in (0.0, -1.0, math.nan, math.inf, True, "1")),
    ],
)
def test_an_event_without_one_noise_multiplier_is_refused(event: dp_accounting.DpEvent) -> None:
    with pytest.raises(PrivacyRefusal):
        noise_multiplier(event)


def test_every_event_of_dp_accounting_that_can_be_charged_is_known() -> None:
    missing = {"NonPrivate", "Unsupported", "DiscreteLaplace", "SingleEpochTreeAggregation"}
    names = {name for name in vars(dp_accounting.dp_event) if name.endswith("DpEvent")}
    unknown = names - {"DpEvent"} - set(event_names())
    assert unknown <= {f"{name}DpEvent" for name in missing}
