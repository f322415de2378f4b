"""dppipe's PLD against dp_accounting's own, on random schedules under every relation.

Both connect the dots of the same profiles on the same grid (the test gives dp_accounting the
interval that dppipe chose), so discretisation adds the same to both. What is left:
- `TAILS`: each counts cut-off tails as infinite loss, dppipe 5e-15 a composition, dp_accounting
  about 1e-15 for each of its compositions; and dp_accounting's transforms have a round-off of which
  no bound is stated. Together they move delta by less than this.
- `HIGHER`: dppipe raises probabilities and Laplace noise's largest loss by what may be rounded.
- `LOWER`: both set probabilities that round-off made negative to 0, which raises the mass of one
  event by some 1e-10; dp_accounting's comes out a little higher, and thousands of events add up.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution

from dppipe.privacy.accountants import Pld
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import merge
from dppipe.privacy.gaussian import GaussianCurve
from dppipe.privacy.pld import compose

TAILS = 1e-12
HIGHER = 2e-6
LOWER = 1e-7
DELTAS = (1e-3, 1e-5, 1e-7, 1e-9)
THEIRS = {
    "zero_out": dp_accounting.NeighboringRelation.REPLACE_SPECIAL,
    "add_remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace_one": dp_accounting.NeighboringRelation.REPLACE_ONE,
}


@dataclass(frozen=True)
class Case:
    relation: Relation
    steps: tuple[tuple[Any, int], ...]

    def __str__(self) -> str:
        kinds = "+".join(type(event).__name__.removesuffix("DpEvent") for event, _ in self.steps)
        return f"{self.relation},{kinds}"

    def theirs(self, interval: float) -> PLDAccountant:
        """Compose by dp_accounting. It would merge Gaussians before they are put on the grid."""
        accountant = PLDAccountant(THEIRS[self.relation], interval)
        for event, count in self.steps:
            if isinstance(event, dp_accounting.GaussianDpEvent):
                for _ in range(count):
                    accountant.compose(event)
            else:
                accountant.compose(event, count)
        return accountant


def drawn(count: int, *, seed: int) -> list[Case]:
    """Draw schedules of one to three events; rates, noise and counts are logarithmic."""
    source = random.Random(seed)

    def between(low: float, high: float) -> float:
        return math.exp(source.uniform(math.log(low), math.log(high)))

    def poisson(low: float, mechanism: type[Any]) -> Any:
        return dp_accounting.PoissonSampledDpEvent(between(1e-3, 0.3), mechanism(between(low, 6)))

    def event(kind: str) -> tuple[Any, int]:
        if kind == "gaussian":
            return dp_accounting.GaussianDpEvent(between(2, 40)), source.randint(1, 4)
        if kind == "laplace":
            return dp_accounting.LaplaceDpEvent(between(2, 40)), source.randint(1, 60)
        if kind == "sampled laplace":
            return poisson(0.5, dp_accounting.LaplaceDpEvent), round(between(1, 500))
        return poisson(0.6, dp_accounting.GaussianDpEvent), round(between(1, 2000))

    gaussians = ["sampled gaussian", "sampled gaussian", "gaussian"]
    kinds: dict[Relation, list[str]] = {
        "zero_out": [*gaussians, "laplace", "sampled laplace"],
        "add_remove": [*gaussians, "laplace", "sampled laplace"],
        "replace_one": gaussians,  # dp_accounting has no Laplace noise under replace_one
    }
    cases = []
    for _ in range(count):
        relation = source.choice(list(kinds))
        steps = [event(source.choice(kinds[relation])) for _ in range(source.randint(1, 3))]
        cases.append(Case(relation, tuple(steps)))
    return cases


def check(case: Case, *, finest: float) -> None:
    (ours,) = compose([merge(case.steps)], relation=case.relation, finest=finest)
    theirs = case.theirs(ours.interval)
    for delta in DELTAS:
        low = theirs.get_epsilon(delta + TAILS)
        high = theirs.get_epsilon(delta - TAILS)
        found = ours.epsilon(delta)
        assert low * (1 - LOWER) <= found <= high * (1 + HIGHER), (delta, low, found, high)


@pytest.mark.parametrize("case", drawn(24, seed=1), ids=str)
def test_pld_agrees_with_dp_accounting_on_one_grid(case: Case) -> None:
    check(case, finest=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("case", drawn(80, seed=2), ids=str)
def test_pld_agrees_with_dp_accounting_on_many_fine_grids(case: Case) -> None:
    check(case, finest=2e-4)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("rate", "z", "count"), [(0.01, 1.0, 500), (0.1, 2.0, 50), (0.3, 0.8, 5)])
def test_pld_is_never_below_an_optimistic_estimate(
    rate: float, z: float, count: int, relation: Relation
) -> None:
    """dp_accounting can round losses down too, which is a bound on the truth from below."""
    optimistic = privacy_loss_distribution.from_gaussian_mechanism(
        z,
        sampling_prob=rate,
        value_discretization_interval=1e-3,
        pessimistic_estimate=False,
        neighboring_relation=THEIRS[relation],
    ).self_compose(count)
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(z))
    (ours,) = compose([{event: count}], relation=relation, finest=1e-3)
    for delta in DELTAS:
        assert optimistic.get_epsilon_for_delta(delta + TAILS) <= ours.epsilon(delta)


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
@pytest.mark.parametrize(("z", "count"), [(2.0, 3), (10.0, 40), (40.0, 500)])
def test_gaussians_on_the_grid_lie_just_above_the_closed_form(
    z: float, count: int, relation: Relation
) -> None:
    """`Pld` takes the closed form by itself; here the grid is made to compute the same."""
    event = dp_accounting.GaussianDpEvent(z)
    (ours,) = compose([{event: count}], relation=relation)
    truth = GaussianCurve(math.sqrt(count) * (2 if relation == "replace_one" else 1) / z)
    for delta in DELTAS:
        assert truth.epsilon(delta) <= ours.epsilon(delta) <= truth.epsilon(delta) * 1.0002
    assert Pld().compose([(event, count)], relation=relation).epsilon(1e-5) == truth.epsilon(1e-5)
