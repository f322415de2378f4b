"""Sums over units: whatever a function returns, one unit moves them by at most the bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.gating.unit_sums import clamped_unit_sum, clipped_unit_sum, rehearse_value
from dppipe.learners.records.training_records import Unit

ROUNDING = 1e-12
"""What float64 may add, as a share of the largest sum that is compared."""
SIZE = 3
NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=64)
"""Any number: zeros of both signs, subnormal ones, 1e308, infinite ones and NaN."""
VALUES = st.lists(st.lists(NUMBERS, min_size=SIZE, max_size=SIZE), min_size=1, max_size=6)
BOUNDS = st.floats(1e-100, 1e100)


def as_unit(numbers: list[float]) -> Unit:
    """Return a unit whose value is these numbers."""
    return Unit(torch.tensor([numbers], dtype=torch.float64), torch.zeros(1))


def own_numbers(unit: Unit) -> Tensor:
    return unit.inputs[0]


def moved(order: float, one: Tensor, other: Tensor) -> float:
    return float(torch.linalg.vector_norm(one - other, order))


@pytest.mark.parametrize("order", [1, 2])
@settings(max_examples=300, deadline=None)
@example(values=[[0.0, 0.0, 5.5e216]], other=[0.0, 0.0, 0.0], bound=1e-100)
@example(values=[[0.0, 0.0, 1.7e308]], other=[0.0, 0.0, -1.7e308], bound=1e-15)
@example(values=[[1e-200, 1e-90, 1e-320]], other=[1e154, 1e154, 1e155], bound=1e-100)
@given(values=VALUES, other=st.lists(NUMBERS, min_size=SIZE, max_size=SIZE), bound=BOUNDS)
def test_a_clipped_sum_moves_by_the_bound_without_a_unit_and_by_twice_it_with_another(
    order: int, values: list[list[float]], other: list[float], bound: float
) -> None:
    def total(units: list[list[float]]) -> Tensor:
        made = map(as_unit, units)
        return clipped_unit_sum(made, own_numbers, shape=(SIZE,), bound=bound, order=order)

    whole = total(values)
    slack = ROUNDING * bound * len(values)
    assert whole.isfinite().all()
    assert moved(order, whole, total(values[1:])) <= bound + slack
    assert moved(order, whole, total([other, *values[1:]])) <= 2 * bound + slack


@settings(max_examples=300, deadline=None)
@given(values=VALUES, other=st.lists(NUMBERS, min_size=SIZE, max_size=SIZE), bound=BOUNDS)
def test_clamped_scores_move_by_the_bound_exactly(
    values: list[list[float]], other: list[float], bound: float
) -> None:
    def total(units: list[list[float]]) -> Tensor:
        made = map(as_unit, units)
        return clamped_unit_sum(made, own_numbers, candidates=SIZE, bound=bound)

    whole = total(values)
    assert whole.isfinite().all()
    assert moved(math.inf, whole, total(values[1:])) <= bound
    assert moved(math.inf, whole, total([other, *values[1:]])) <= 2 * bound


@settings(max_examples=100, deadline=None)
@given(values=VALUES, bound=BOUNDS, seed=st.integers(0, 2**32))
def test_scores_are_the_same_in_every_order_of_the_units(
    values: list[list[float]], bound: float, seed: int
) -> None:
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(seed)).tolist()
    sums = []
    for listed in (values, [values[place] for place in order]):
        units = map(as_unit, listed)
        sums.append(clamped_unit_sum(units, own_numbers, candidates=SIZE, bound=bound))
    assert torch.equal(*sums)


def test_a_value_within_the_bound_counts_as_it_is() -> None:
    units = [as_unit([3.0, 4.0, 0.0]), as_unit([0.3, 0.4, 0.0])]
    total = clipped_unit_sum(units, own_numbers, shape=(SIZE,), bound=1.0)
    torch.testing.assert_close(total, torch.tensor([0.9, 1.2, 0.0], dtype=torch.float64))
    scores = clamped_unit_sum(units, own_numbers, candidates=SIZE, bound=1.0)
    torch.testing.assert_close(
        scores, torch.tensor([1.3, 1.4, 0.0], dtype=torch.float64), atol=1e-6, rtol=0
    )


def raises(error: BaseException) -> Callable[[Unit], Tensor]:
    def value(unit: Unit) -> Tensor:
        raise error

    return value


USELESS: dict[str, Callable[[Unit], Any]] = {
    "raises": raises(ValueError("patient 17")),
    "exits": raises(SystemExit(3)),
    "another shape": lambda unit: torch.ones(SIZE + 1),
    "another rank": lambda unit: torch.ones(1, SIZE),
    "no tensor": lambda unit: "text",
    "None": lambda unit: None,
    "complex": lambda unit: torch.ones(SIZE, dtype=torch.complex64),
    "on no device": lambda unit: torch.ones(SIZE, device="meta"),
    "sparse": lambda unit: torch.ones(SIZE).to_sparse(),
    "NaN": lambda unit: torch.full((SIZE,), math.nan),
    "nested": lambda unit: [[1.0], [1.0, 2.0], [3.0]],
}


@pytest.mark.parametrize("name", USELESS)
def test_a_value_that_cannot_be_used_counts_as_zero_and_ends_nothing(name: str) -> None:
    def value(unit: Unit) -> Any:
        return USELESS[name](unit) if unit.inputs[0, 0] == 7 else unit.inputs[0]

    units = [as_unit([1.0, 0.0, 0.0]), as_unit([7.0, 0.0, 0.0])]
    alone = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    assert torch.equal(clipped_unit_sum(units, value, shape=(SIZE,), bound=1.0), alone)
    assert torch.equal(clamped_unit_sum(units, value, candidates=SIZE, bound=1.0), alone)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.bool, torch.uint8]
)
def test_values_of_every_real_dtype_are_summed_in_float64(dtype: torch.dtype) -> None:
    def value(unit: Unit) -> Tensor:
        return torch.tensor([1, 0, 1], dtype=dtype)

    total = clipped_unit_sum([as_unit([0.0])] * 5000, value, shape=(SIZE,), bound=2.0)
    assert total.tolist() == [5000.0, 0.0, 5000.0]
    assert total.dtype == torch.float64


def test_a_machine_without_memory_ends_the_sum() -> None:
    with pytest.raises(MemoryError):
        clipped_unit_sum([as_unit([1.0])], raises(MemoryError()), shape=(1,), bound=1.0)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan, 1e-101, 1e101])
def test_a_bound_that_noise_cannot_be_scaled_to_is_refused(bound: float) -> None:
    with pytest.raises(PrivacyRefusal, match="expected a bound from"):
        clipped_unit_sum([], own_numbers, shape=(1,), bound=bound)
    with pytest.raises(PrivacyRefusal, match="expected a bound from"):
        clamped_unit_sum([], own_numbers, candidates=1, bound=bound)


MADE_UP = Unit(torch.randn(2, SIZE, generator=torch.Generator().manual_seed(0)), torch.arange(2))


def running_total() -> Callable[[Unit], Tensor]:
    total = torch.zeros(SIZE)

    def value(unit: Unit) -> Tensor:
        total.add_(unit.inputs.mean(0))
        return total

    return value


def running_largest() -> Callable[[Unit], Tensor]:
    largest = [0.0]

    def value(unit: Unit) -> Tensor:
        largest[0] = max(largest[0], float(unit.inputs.abs().max()))
        return unit.inputs.mean(0) / largest[0]

    return value


def accumulated_gradient() -> Callable[[Unit], Tensor]:
    weight = torch.zeros(SIZE, requires_grad=True)

    def value(unit: Unit) -> Tensor:
        (unit.inputs @ weight).sum().backward()
        assert weight.grad is not None
        return weight.grad

    return value


@pytest.mark.parametrize("make", [running_total, running_largest, accumulated_gradient])
def test_a_function_that_keeps_something_of_earlier_units_is_refused(make: Any) -> None:
    with pytest.raises(UsageError, match="keep nothing between calls"):
        rehearse_value(make(), MADE_UP, (SIZE,))


def test_a_function_that_changes_its_unit_in_place_is_not_taken_for_one_with_memory() -> None:
    rehearse_value(lambda unit: unit.inputs.mul_(2).mean(0), MADE_UP, (SIZE,))


def test_a_function_that_may_refuse_odd_units_is_rehearsed_all_the_same() -> None:
    def value(unit: Unit) -> Tensor:
        if not torch.equal(unit.inputs, MADE_UP.inputs):
            raise ValueError("odd")
        return unit.inputs.mean(0)

    rehearse_value(value, MADE_UP, (SIZE,))


def test_one_unit_does_not_change_how_those_after_it_are_rounded() -> None:
    """Added one by one, 20,000 units would be moved by 1 + 2^-28 here."""
    ones = [1.0] * 4095
    step = 2.0**-40  # between neighbouring float64 numbers from 4096 on; half of it below
    after = [0.5, -(0.5 + 0.49 * step)] * 8192

    def total(numbers: list[float]) -> float:
        units = (as_unit([number]) for number in numbers)
        return float(clipped_unit_sum(units, own_numbers, shape=(1,), bound=1.0))

    assert total([*ones, 1.0, *after]) - total([*ones, *after]) == 1.0
