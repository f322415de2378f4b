"""Sums of linear regression: how far one unit moves them, whatever its records, and what they are without noise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learners.regressed import (
    FACTS,
    GONE,
    apart,
    dataset_for,
    job_of,
    learner_of,
    moments_of,
    released,
)
from torch.utils.data import Dataset

from dppipe.data.reading.users import with_users
from dppipe.learners.regression import moments as sums
from dppipe.learners.regression.moments import Moments, stack, unstack
from dppipe.learners.regression.ridge import adaptive_ridge, solve_ridge
from dppipe.learners.regression.targets import bounded_targets

NUMBERS = st.one_of(
    st.floats(-3, 3),
    st.sampled_from([0.0, 1e308, -1e308, 1e-308, 5e-324, 1e9, math.nan, math.inf]),
)
LABELS = st.one_of(st.sampled_from([0.0, 1.0, 2.0]), st.sampled_from([9.0, -1.0, 0.5]))
METHODS = ["joint", "adassp"]


def records_of(name: str) -> st.SearchStrategy[tuple[list[float], list[float]]]:
    targets = NUMBERS if FACTS[name].task == "regression" else LABELS
    return st.tuples(
        st.lists(NUMBERS, min_size=2, max_size=2), st.lists(targets, min_size=2, max_size=2)
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FACTS)
def test_a_record_moves_the_sums_by_at_most_the_sensitivity(name: str, method: str) -> None:
    @settings(max_examples=30, deadline=None)
    @given(
        st.lists(records_of(name), max_size=6),
        records_of(name),
        records_of(name),
        st.integers(0, 6),
        st.sampled_from([0.5, 3.0]),
        st.sampled_from([0.1, 40.0]),
        st.sampled_from(["clip", "unit"]),
    )
    def check(
        others: Any, one: Any, another: Any, place: int, norm: float, bound: float, scale: str
    ) -> None:
        learner = learner_of(name, method=method, max_norm=norm, target_bound=bound, scale=scale)
        facts = FACTS[name]
        before, behind = others[:place], others[place:]
        having, replaced, zeroed, removed = (
            released(learner, facts, dataset_for(facts, [*before, *there, *behind]))
            for there in ([one], [another], [(GONE, [0.0, 0.0])], [])
        )
        most = learner.sensitivity(facts)
        assert apart(having, zeroed) <= most
        assert apart(having, removed) <= most
        assert apart(having, replaced) <= 2 * most

    check()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["binary", "regression", "two outputs"])
def test_a_user_moves_the_sums_by_at_most_the_sensitivity(name: str, method: str) -> None:
    facts = replace(FACTS[name], unit="user")

    @settings(max_examples=20, deadline=None)
    @given(
        st.lists(records_of(name), max_size=4),
        st.lists(records_of(name), min_size=1, max_size=12),
        st.sampled_from([0.5, 3.0]),
    )
    def check(others: Any, own: Any, norm: float) -> None:
        learner = learner_of(name, method=method, max_norm=norm, scale="unit")
        gone = [(GONE, [0.0, 0.0])] * len(own)
        owners = np.array([*range(1, len(others) + 1), *[0] * len(own)])
        having, zeroed = (
            released(learner, facts, with_users(dataset_for(facts, [*others, *there]), owners))
            for there in (own, gone)
        )
        removed = with_users(dataset_for(facts, others), owners[: len(others)])
        most = learner.sensitivity(facts)
        assert apart(having, zeroed) <= most
        assert apart(having, released(learner, facts, removed)) <= most

    check()


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("norm", [0.5, 3.0])
def test_the_sensitivity_is_nearly_met(name: str, norm: float) -> None:
    learner = learner_of(name, max_norm=norm)
    facts = FACTS[name]
    one = dataset_for(facts, [([1e9, 3e8], [1.0, 1.0] if name != "two outputs" else [9.0, 1e9])])
    if name == "regression":
        one = dataset_for(facts, [([1e9, 3e8], [-1e30, 0.0])])
    found = float(torch.linalg.vector_norm(released(learner, facts, one)))
    assert found == pytest.approx(learner.sensitivity(facts), rel=1e-5)


@pytest.mark.parametrize("norm", [0.5, 3.0])
def test_the_smallest_eigenvalue_moves_by_at_most_the_squared_bound(norm: float) -> None:
    learner = learner_of("regression", method="adassp", max_norm=norm)
    facts = FACTS["regression"]
    others = [([0.0, 1e9], [2.0, 0.0])] * 40
    along = ([1e9, 0.0], [2.0, 0.0])
    without, having = (
        stack(moments_of(learner, facts, dataset_for(facts, records), bias=False))
        for records in (others, [*others, along])
    )
    assert float(without[-1]) == 0.0
    assert float(having[-1]) == pytest.approx(norm**2, rel=1e-4)
    assert float(having[-1]) <= norm**2
    assert apart(having, without) == pytest.approx(learner.sensitivity(facts), rel=1e-4)


def test_sums_are_exact_whatever_the_order_and_the_number_of_records() -> None:
    generator = torch.Generator().manual_seed(4)
    steps = torch.randint(-(2**22), 2**22 + 1, (3000, 3), generator=generator)
    steps[:, 2] = 2**22
    steps[::2, 0] = -(2**22)
    columns = [[int(value) for value in column] for column in steps.T]
    found = sums._exact_squares(steps.to(torch.float64))
    for row in range(3):
        for column in range(3):
            pairs = zip(columns[row], columns[column], strict=True)
            assert float(found[row, column]) == float(sum(a * b for a, b in pairs))
    mixed = steps[torch.randperm(3000, generator=generator)].to(torch.float64)
    spread = torch.cat([torch.zeros(700, 3, dtype=torch.float64), mixed])
    assert torch.equal(sums._exact_squares(spread), found)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", FACTS)
def test_without_noise_it_is_ridge_regression(name: str, bias: bool) -> None:
    facts = FACTS[name]
    learner = learner_of(name, max_norm=3.0, target_bound=5.0, ridge=4.0)
    generator = np.random.default_rng(5)
    inputs = generator.normal(size=(300, 2)) * 2
    labels = generator.integers(0, 2 if name == "binary" else 3, size=(300, 2)).astype(float)
    targets = generator.normal(size=(300, 2)) * 4 if facts.task == "regression" else labels
    dataset = dataset_for(facts, list(zip(inputs.tolist(), targets.tolist(), strict=True)))
    found = learner.solve(moments_of(learner, facts, dataset, bias=bias), facts, noise_std=0.0)

    x = inputs * np.minimum(1, 3 / np.linalg.norm(inputs, axis=1))[:, None]
    if bias:
        x = np.hstack([x, np.full((300, 1), 3.0)]) / math.sqrt(2)
    if name == "binary":
        y = 2 * targets[:, :1] - 1
    elif name == "classes":
        y = np.eye(3)[targets[:, 0].astype(int)] - 1 / 3
    else:
        y = targets[:, : facts.outputs]
        y = y * np.minimum(1, 5 / np.linalg.norm(y, axis=1))[:, None]
    expected = np.linalg.solve(x.T @ x + 4.0 * np.eye(x.shape[1]), x.T @ y).T
    assert found.numpy() == pytest.approx(expected, abs=1e-5)
    plain = learner_of(name, max_norm=3.0, target_bound=5.0)
    least = plain.solve(moments_of(plain, facts, dataset, bias=bias), facts, noise_std=0.0)
    assert least.numpy() == pytest.approx(np.linalg.lstsq(x, y, rcond=None)[0].T, abs=1e-5)


def test_columns_that_repeat_each_other_share_their_weight_without_noise() -> None:
    learner = learner_of("regression", max_norm=3.0, target_bound=5.0)
    facts = FACTS["regression"]
    values = np.random.default_rng(6).normal(size=200).tolist()
    dataset = dataset_for(facts, [([v / 3, v / 3], [2 * v / 3, 0.0]) for v in values])
    found = learner.solve(moments_of(learner, facts, dataset), facts, noise_std=0.0)
    # A row has its features times sqrt(1/2).
    expected = [math.sqrt(2), math.sqrt(2), 0.0]
    assert found[0].tolist() == pytest.approx(expected, abs=1e-4)


def test_several_targets_are_shortened_together() -> None:
    targets = torch.tensor([[3.0, 4.0], [0.3, -0.4], [0.0, -1e300]], dtype=torch.float64)
    found = bounded_targets(targets, FACTS["two outputs"], bound=1.0)
    expected = [0.6, 0.8, 0.3, -0.4, 0.0, -1.0]
    assert found.flatten().tolist() == pytest.approx(expected)
    assert float(torch.linalg.vector_norm(found, dim=1).max()) <= 1.0


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=13, max_size=13),
    st.sampled_from([1e-9, 1.0, 1e5]),
    st.sampled_from(METHODS),
    st.sampled_from(["auto", 1e-6, 10.0]),
)
def test_a_solution_is_found_for_every_value_that_noise_can_make(
    drawn: list[float], std: float, method: str, ridge: Any
) -> None:
    vector = torch.tensor(drawn, dtype=torch.float64)[: 12 + (method == "adassp")]
    learner = learner_of("two outputs", method=method, ridge=ridge)
    noisy = unstack(vector, width=3, outputs=2)
    assert (noisy.smallest is None) == (method == "joint")
    weights = learner.solve(noisy, FACTS["two outputs"], noise_std=std)
    assert weights.shape == (2, 3)
    assert bool(weights.isfinite().all())


def test_a_matrix_that_noise_made_indefinite_loses_its_negative_part() -> None:
    squares = torch.diag(torch.tensor([5.0, -4.0, 0.0], dtype=torch.float64))
    products = torch.tensor([[6.0], [6.0], [6.0]], dtype=torch.float64)
    weights = solve_ridge(Moments(squares, products), ridge=2.0, noise_std=1.0)
    assert weights[0].tolist() == pytest.approx([6 / 7, 3.0, 3.0])
    below = solve_ridge(Moments(squares, products), ridge=0.5, noise_std=1.0)
    assert below[0].tolist() == pytest.approx([6 / 5.5, 0.0, 0.0])


def test_adassp_takes_less_ridge_where_no_eigenvalue_is_small() -> None:
    needed = 2.0 * math.sqrt(3 * math.log(2 * 9 / 0.05))
    nothing = torch.zeros(3, 3, dtype=torch.float64)
    for smallest, expected in [
        (-50.0, needed),
        (3.0, needed),
        (1.96 * 2.0 + 1.5, needed - 1.5),
        (1e9, 0.0),
    ]:
        found = Moments(nothing, nothing, torch.tensor(smallest, dtype=torch.float64))
        assert adaptive_ridge(found, 2.0) == pytest.approx(expected)


class Raising(Dataset[Any]):
    """A record that raises behind good ones."""

    def __init__(self, good: Any) -> None:
        self.good = good

    def __len__(self) -> int:
        return len(self.good) + 1

    def __getitem__(self, index: int) -> Any:
        if index < len(self.good):
            return self.good[index]
        raise ValueError("the name of a person")


def test_a_record_that_raises_contributes_nothing_and_says_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    learner = learner_of("regression")
    facts = FACTS["regression"]
    good = dataset_for(facts, [([1.0, 2.0], [1.0, 0.0]), ([-1.0, 0.5], [0.2, 0.0])])
    assert torch.equal(released(learner, facts, Raising(good)), released(learner, facts, good))
    assert capsys.readouterr() == ("", "")


def test_a_user_weighs_as_much_as_one_record() -> None:
    learner = learner_of("regression", max_norm=2.0)
    facts = FACTS["regression"]
    many = [([1.0, 0.0], [1.0, 0.0])] * 300
    few = [([0.0, 1.0], [-1.0, 0.0])]
    owned = with_users(dataset_for(facts, [*many, *few]), np.array([0] * 300 + [1]))
    found = released(learner, replace(facts, unit="user"), owned)
    alone = released(learner, facts, dataset_for(facts, [*many[:1], *few]))
    assert apart(found, alone) < 1e-4


def test_targets_of_classes_predict_by_sign_and_by_the_largest_output() -> None:
    corners = [[3.0, 0.0], [-3.0, 0.5], [0.0, -3.0]]
    for name, classes in (("binary", 2), ("classes", 3)):
        facts = FACTS[name]
        learner = learner_of(name, max_norm=3.0)
        records = [(corners[k], [float(k), 0.0]) for k in range(classes)] * 20
        dataset = dataset_for(facts, records)
        job = job_of(learner, facts, dataset)
        layer = job.module[1]
        layer.set_solution(learner.solve(learner.moments(job, None), facts, noise_std=0.0))
        outputs = job.module(torch.tensor(corners[:classes]))
        if name == "binary":
            assert (outputs[:, 0] > 0).tolist() == [False, True]
        else:
            assert outputs.argmax(1).tolist() == [0, 1, 2]
