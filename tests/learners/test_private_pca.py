"""Private principal components: what one unit moves, what is released, and what it costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from dppipe.data.features.pca import PrivatePca
from dppipe.learners.inputs.projection import Projection, ProjectionStage
from dppipe.learners.inputs.second_moments import second_moments, to_matrix, to_vector
from dppipe.privacy.budget import Budget
from dppipe.privacy.gaussian import gaussian_epsilon

WIDTH = 3
NUMBERS = st.one_of(
    st.floats(-10, 10),
    st.sampled_from([0.0, 1e-300, 1e-30, 1e30, 1e300, -1e308, math.nan, math.inf, -math.inf]),
)
RECORDS = st.lists(st.tuples(*[NUMBERS] * WIDTH), min_size=1, max_size=12)


def rows(records: list[tuple[float, ...]]) -> Tensor:
    return torch.tensor(records, dtype=torch.float64).reshape(-1, WIDTH)


def stage(**options: Any) -> ProjectionStage:
    given_options: dict[str, Any] = {"components": 2, "max_norm": 1.0, "noise_multiplier": 1.0}
    return ProjectionStage(PrivatePca(**given_options | options))


def moved(one: Tensor, other: Tensor) -> float:
    return float(torch.linalg.vector_norm(one - other))


@settings(max_examples=150, deadline=None)
@given(records=RECORDS, max_norm=st.sampled_from([0.01, 1.0, 3.5, 1e4]), data=st.data())
def test_one_record_moves_the_sum_by_at_most_its_sensitivity(
    records: list[tuple[float, ...]], max_norm: float, data: st.DataObject
) -> None:
    """For zero_out and add_remove; two records that are exchanged move it by the square root of 2 of that."""
    made = stage(max_norm=max_norm)
    bound = made.sensitivity((WIDTH,))
    place = data.draw(st.integers(0, len(records) - 1))
    whole = made.total(rows(records), None)
    removed = made.total(rows(records[:place] + records[place + 1 :]), None)
    zeroed = [*records[:place], (0.0,) * WIDTH, *records[place + 1 :]]
    assert whole.isfinite().all()
    assert moved(whole, removed) <= bound
    assert torch.equal(made.total(rows(zeroed), None), removed)
    other = data.draw(st.tuples(*[NUMBERS] * WIDTH))
    replaced = made.total(rows([*records[:place], other, *records[place + 1 :]]), None)
    assert moved(whole, replaced) <= math.sqrt(2) * bound * (1 + 1e-9)


@settings(max_examples=100, deadline=None)
@given(records=RECORDS, data=st.data())
def test_one_user_moves_the_sum_by_at_most_its_sensitivity(
    records: list[tuple[float, ...]], data: st.DataObject
) -> None:
    made = stage(max_norm=2.0)
    owners = np.array(
        data.draw(st.lists(st.integers(0, 3), min_size=len(records), max_size=len(records)))
    )
    user = int(owners[0])
    others = owners != user
    whole = made.total(rows(records), owners)
    without = made.total(rows(records)[torch.from_numpy(others)], owners[others])
    assert moved(whole, without) <= made.sensitivity((WIDTH,))
    changed = rows(records)
    changed[torch.from_numpy(~others)] = torch.tensor([3.0, -4.0, 100.0], dtype=torch.float64)
    replaced = made.total(changed, owners)
    assert moved(whole, replaced) <= math.sqrt(2) * made.sensitivity((WIDTH,)) * (1 + 1e-9)


def test_a_long_record_reaches_the_sensitivity_and_a_users_records_count_once() -> None:
    made = stage(max_norm=3.0)
    long = torch.tensor([[100.0, 0.0, -50.0]])
    assert float(made.total(long, None).norm()) == pytest.approx(9.0, rel=1e-4)
    many = long.repeat(50, 1)
    assert float(made.total(many, np.zeros(50, dtype=np.int64)).norm()) == pytest.approx(
        9, rel=1e-3
    )
    assert float(made.total(many, None).norm()) == pytest.approx(450, rel=1e-4)
    assert made.sensitivity((WIDTH,)) == pytest.approx(9.0, rel=1e-6)


def test_a_users_record_that_is_not_finite_takes_nothing_from_the_others() -> None:
    made = stage()
    usable = torch.tensor([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]])
    broken = torch.cat([usable, torch.full((3, 3), math.nan)])
    expected = made.total(usable, np.zeros(2, dtype=np.int64))
    assert torch.equal(made.total(broken, np.zeros(5, dtype=np.int64)), expected)


@pytest.mark.parametrize("width", [1, 20, 101])
def test_the_sum_does_not_depend_on_the_order_of_records(width: int) -> None:
    """It is exact: where a record stands, and which others there are, changes no rounding."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(5000, width, generator=generator, dtype=torch.float64)
    total = second_moments(inputs, None, max_norm=2.0)
    shuffled = inputs[torch.randperm(5000, generator=generator)]
    assert torch.equal(second_moments(shuffled, None, max_norm=2.0), total)
    whole = to_matrix(total, width)
    parts = to_matrix(second_moments(inputs[:1301], None, max_norm=2.0), width)
    parts += to_matrix(second_moments(inputs[1301:], None, max_norm=2.0), width)
    step = (2.0 / 2**18) ** 2
    assert torch.equal((parts / step).round(), (whole / step).round())


def test_a_vector_has_the_norm_of_its_matrix_and_leads_back_to_it() -> None:
    matrix = torch.randn(7, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrix = matrix + matrix.T
    vector = to_vector(matrix)
    assert len(vector) == stage().size((7,)) == 28
    assert float(vector.norm()) == pytest.approx(float(matrix.norm()), rel=1e-12)
    torch.testing.assert_close(to_matrix(vector, 7), matrix)


def test_without_noise_the_directions_are_those_of_the_records() -> None:
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(400, 6)) * np.array([5, 4, 3, 0.1, 0.1, 0.1])
    made = stage(components=3, max_norm=1e3)
    tensor = torch.from_numpy(inputs)
    found = made.transform(made.total(tensor, None), count=1, input_shape=(6,))
    _, _, expected = np.linalg.svd(inputs, full_matrices=False)
    overlap = np.abs(found.directions.numpy().T @ expected[:3].T)
    np.testing.assert_allclose(overlap, np.eye(3), atol=1e-3)
    np.testing.assert_allclose(
        found.transformed(tensor).numpy(), inputs @ found.directions.numpy(), atol=1e-9
    )


def test_a_projected_record_depends_on_it_and_on_what_was_released() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(700, 1, 4, 4, generator=generator)
    projection = Projection(torch.randn(16, 5, generator=generator, dtype=torch.float64))
    changed = inputs.clone()
    changed[:300] = math.nan
    assert torch.equal(projection.transformed(changed)[300:], projection.transformed(inputs)[300:])
    assert projection.transformed(inputs).dtype == torch.float32


@pytest.mark.parametrize(("width", "components"), [(3, 2), (69, 8), (69, 50), (200, 17)])
def test_a_projected_record_does_not_depend_on_its_place(width: int, components: int) -> None:
    """In float64: rounding to float32 hides most of what a place changes, not all of it."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(700, width, generator=generator, dtype=torch.float64)
    inputs *= torch.logspace(-30, 30, 700, dtype=torch.float64)[:, None]
    numbers = torch.randn(width, components, generator=generator, dtype=torch.float64)
    projection = Projection(torch.linalg.qr(numbers)[0])
    whole = projection.transformed(inputs)
    for start in (1, 2, 5, 300):
        assert torch.equal(projection.transformed(inputs[start:]), whole[start:])
    lengths = inputs.norm(dim=1, keepdim=True)
    assert ((whole - inputs @ projection.directions) / lengths).abs().max() < 1e-7


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_record_that_is_not_finite_stays_so(number: float) -> None:
    rows = [[1.0, number], [0.0, 0.0], [1e-310, 0.0], [1.7e308, 0.0]]
    inputs = torch.tensor(rows, dtype=torch.float64)
    made = Projection(torch.eye(2, dtype=torch.float64)).transformed(inputs)
    assert not made[0].isfinite().any()
    assert made[1:].isfinite().all()


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace_one"])
def test_a_share_of_the_budget_is_what_the_matrix_costs_alone(relation: Any) -> None:
    budget = Budget(epsilon=2.0, delta=1e-6, relation=relation)
    pca = PrivatePca(components=2, max_norm=1.0, budget_share=0.25)
    multiplier = pca.release(budget).event.noise_multiplier
    doubled = 2 if relation == "replace_one" else 1
    assert gaussian_epsilon(multiplier / doubled, 1e-6) == pytest.approx(0.5, rel=1e-6)
    assert gaussian_epsilon(multiplier / doubled, 1e-6) <= 0.5 * (1 + 1e-9)


@pytest.mark.parametrize(
    "options", [{}, {"noise_multiplier": 1.0, "budget_share": 0.5}, {"budget_share": 1.0}]
)
def test_noise_is_stated_once(options: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        PrivatePca(components=2, max_norm=1.0, **options)  # type: ignore[arg-type]


def test_components_that_an_input_has_not_are_named() -> None:
    pca = PrivatePca(components=65, max_norm=1.0, noise_multiplier=1.0)
    assert [name for name, _ in pca.problems((1, 8, 8))] == ["components"]
    assert not list(pca.problems((1, 8, 9)))
    assert [name for name, _ in pca.problems((4097,))] == ["kind"]
