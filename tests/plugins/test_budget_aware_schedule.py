"""The example that adapts: it follows released values alone, and a filter keeps what it spends within the budget."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppipe.errors import PrivacyRefusal
from dppipe.noise.base import NoiseSchedule
from dppipe.plugin_kit import check_file
from dppipe.privacy.filters.filters import Amount, Commitment, RdpFilter, best_order
from dppipe.sampling import Poisson
from dppipe.spec.kinds.registry import Registry
from dppipe.spec.load import spec_from_text

PLUGINS = Path(__file__).parents[2] / "plugins"
BudgetAware = Registry(PLUGINS).load("noise", "budget_aware")

SPEC = """
version: 1
name: adapts
data: digits
model: logistic
optimizer: sgd
sampler: {kind: poisson, expected_batch_size: 256}
noise: {kind: budget_aware, noise_multiplier: 4.0}
accountant: %s
budget: {epsilon: 3.0, delta: 1.0e-5}
train: {steps: 100}
"""


def make(**options: float) -> NoiseSchedule:
    made = BudgetAware.from_data(options)
    assert isinstance(made, NoiseSchedule)
    return made


def test_nothing_breaks_it() -> None:
    (checked,) = check_file(PLUGINS / "budget_aware_schedule.py")
    assert not checked.faults


def test_the_noise_stays_while_releases_fall() -> None:
    assert make(patience=2).next_multiplier([1 / (t + 1) for t in range(100)]) == 1.0


def test_the_noise_shrinks_each_time_that_releases_stall() -> None:
    schedule = make(patience=3, decay=0.5, floor=0.2)
    sizes = [schedule.next_multiplier([1.0] * steps) for steps in range(20)]
    assert sizes[:4] == [1.0] * 4
    assert sizes[4:8] == [0.5] * 4
    assert sizes[8:12] == [0.25] * 4
    assert set(sizes[12:]) == {0.2}


def test_what_is_no_number_is_no_new_low() -> None:
    schedule = make(patience=3, decay=0.5)
    assert schedule.next_multiplier([1.0, math.nan, math.nan, math.nan]) == 0.5
    assert schedule.next_multiplier([1.0, math.nan, 0.9, math.nan, 0.8, math.nan]) == 1.0


@given(
    history=st.lists(st.floats(), max_size=200),
    patience=st.integers(1, 20),
    floor=st.floats(0.01, 1),
)
def test_the_noise_stays_within_its_limits(
    history: list[float], patience: int, floor: float
) -> None:
    schedule = make(patience=patience, floor=floor)
    sizes = [schedule.next_multiplier(history[:steps]) for steps in range(len(history) + 1)]
    assert all(floor <= size <= 1 for size in sizes)
    assert sizes == sorted(sizes, reverse=True)


def test_a_filter_stops_it_within_the_budget_whatever_was_released() -> None:
    rule = RdpFilter(order=best_order(epsilon=3.0, delta=1e-5))
    capacity = rule.capacity(epsilon=3.0, delta=1e-5)
    steps = {}
    for name, value in (("falling", lambda t: -float(t)), ("stalled", lambda t: 1.0)):
        schedule, spent, history = make(), Amount(), list[float]()
        while True:
            event = Poisson(sample_rate=0.18).event(
                schedule.event(4 * schedule.next_multiplier(history)), rate=0.18
            )
            cost = rule.cost(
                Commitment(
                    [(event, 1)], relation="zero_out", unit="example", epsilon=0.0, delta=0.0
                )
            )
            after = Amount(spent.amount + cost.amount)
            if not after.fits(capacity):
                break
            spent = after
            history.append(value(len(history)))
        assert 0.8 * capacity.amount < spent.amount <= capacity.amount
        steps[name] = len(history)
    assert steps["stalled"] < steps["falling"] / 2


def test_only_accountants_with_a_filter_take_it() -> None:
    assert spec_from_text(SPEC % "rdp", plugins=PLUGINS).noise.adaptive
    with pytest.raises(
        PrivacyRefusal,
        match="pld has no filter that is proven where the noise follows released values",
    ):
        spec_from_text(SPEC % "pld", plugins=PLUGINS)
