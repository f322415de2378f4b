"""Shares of a scope: what is shown as left can be reserved, by either limit of every filter."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import GaussianDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.budgets.scopes import Entry, Scope, Status, percent_left, percent_used
from dppipe.budgets.store import Store
from dppipe.errors import BudgetExhausted
from dppipe.privacy.filters.filters import FILTERS, Amount, Commitment

EPSILON, DELTA = 4.0, 1e-5


def scope(kind: str) -> Scope:
    return Scope.make("s", epsilon=EPSILON, delta=DELTA, filter=kind)


def run_of(epsilon: float, delta: float, *, steps: int = 1) -> Commitment:
    return Commitment([(GaussianDpEvent(40.0), steps)], "zero_out", "example", epsilon, delta)


def status(of: Scope, *costs: Amount) -> Status:
    entries = []
    for number, cost in enumerate(costs):
        names: Any = {"run_dir": "r", "plan_hash": "0", "fingerprint": None, "host": "h", "at": ""}
        entries.append(Entry(str(number), "s", "reserved", cost, 1.0, DELTA, **names))
    return Status(of, tuple(entries))


@pytest.mark.parametrize("kind", FILTERS)
@given(parts=st.lists(st.tuples(st.floats(0, 1.2), st.floats(0, 1.2)), min_size=1, max_size=5))
@settings(deadline=None, max_examples=30)
def test_a_share_of_at_most_one_is_what_fits_and_nothing_else_is(kind: str, parts: Any) -> None:
    made = scope(kind)
    capacity = made.capacity
    costs = [Amount(a * capacity.amount / 2, d * capacity.delta / 2) for a, d in parts]
    found = status(made, *costs)
    both = [found.used.amount / capacity.amount]
    both += [found.used.delta / capacity.delta] if capacity.delta else []
    assert found.share == pytest.approx(max(both))
    if not math.isclose(found.share, 1):
        assert found.used.fits(capacity) == (found.share < 1)
    assert found.left == pytest.approx(max(0, 1 - max(both)))
    room = found.room
    assert room.amount == pytest.approx(max(0, capacity.amount - found.used.amount))
    assert room.delta == pytest.approx(max(0, capacity.delta - found.used.delta))


@pytest.mark.parametrize("kind", ["basic", "advanced"])
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0.01, DELTA / 7.5), (1.1, 1e-12), (0.5, DELTA / 9.5), (0.3, DELTA / 5.5)],
)
def test_as_many_runs_are_granted_as_the_share_of_one_promises(
    tmp_path: Path,
    kind: str,
    epsilon: float,
    delta: float,
) -> None:
    made = scope(kind)
    store = Store(tmp_path / "budgets.db")
    store.create(made)
    one = run_of(epsilon, delta)
    promised = math.floor(1 / made.share(made.rule.cost(one)))
    for number in range(promised):
        left = store.status("s").left
        store.reserve("s", str(number), one, run_dir="r", plan_hash="0")
        assert store.status("s").left < left
    with pytest.raises(BudgetExhausted, match="of its room left"):
        store.reserve("s", "one more", one, run_dir="r", plan_hash="0")
    assert store.status("s").left < made.share(made.rule.cost(one))


@pytest.mark.parametrize("kind", FILTERS)
def test_nothing_is_left_once_either_limit_is_reached(kind: str) -> None:
    made = scope(kind)
    capacity = made.capacity
    used_up = [Amount(capacity.amount, 0.0), Amount(capacity.amount, capacity.delta)]
    if capacity.delta:
        used_up.append(Amount(0.0, capacity.delta))
    for cost in used_up:
        found = status(made, cost)
        assert (found.share, found.left, percent_left(found.left)) == (1.0, 0.0, "0.0%")
        assert not found.fits(Amount(capacity.amount / 100, capacity.delta / 100))
    assert status(made).share == 0.0
    assert percent_left(status(made).left) == "100.0%"


@given(st.floats(0, 1))
def test_shares_are_rounded_against_who_reads_them(share: float) -> None:
    assert float(percent_used(share)[:-1]) >= 100 * share - 1e-9
    assert float(percent_left(share)[:-1]) <= 100 * share + 1e-9
