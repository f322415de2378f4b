"""Solutions of perturbed learners: how far one record moves them, and how exact they are, whatever the records."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learners.perturbed import CLASSES, Problem, dataset_of, exact_gradient, facts_of
from torch.utils.data import Dataset

from dppipe.data.reading.users import with_users
from dppipe.errors import PrivacyRefusal
from dppipe.learners.linear.last_layer import bounded_layer
from dppipe.learners.linear.row_bounds import bound_vectors
from dppipe.learners.objective_perturbation import ObjectivePerturbation
from dppipe.learners.output_perturbation import OutputPerturbation
from dppipe.learners.perturbation import solver
from dppipe.learners.perturbation.objective import Objective
from dppipe.learners.perturbation.precise_products import Split, precise_product
from dppipe.learners.perturbation.rounding import product_round_off

LOSSES = ("logistic", "hinge", "softmax", "huber")
NUMBERS = st.one_of(
    st.floats(-3, 3),
    st.sampled_from([0.0, 1e308, -1e308, 1e-308, 5e-324, 1e9, math.nan, math.inf]),
)
LABELS = {"logistic": [0, 1], "hinge": [0, 1], "softmax": range(CLASSES)}


def records_of(loss: str) -> st.SearchStrategy[tuple[list[float], float]]:
    usual: Any = st.sampled_from(LABELS[loss]) if loss in LABELS else NUMBERS
    return st.tuples(st.lists(NUMBERS, min_size=2, max_size=2), st.one_of(usual, st.just(9.0)))


def problem_of(loss: str, *, regularization: float, **options: Any) -> Problem:
    unit = options.pop("unit", "example")
    learner = OutputPerturbation(loss=loss, regularization=regularization, **options)
    facts = facts_of(loss, unit=unit)
    tolerance = learner.tolerance_for(facts, regularization, noise=100.0)
    return Problem(learner, facts, regularization, tolerance)


def moved(problem: Problem, records: list[Any], another: Any) -> float:
    """Return how far a record that is zeroed out moves the solution."""
    having = problem.solution(dataset_of(*zip(*[*records, another], strict=True)))
    gone = ([math.nan, 0.0], 0.0)
    without = problem.solution(dataset_of(*zip(*[*records, gone], strict=True)))
    return float(torch.linalg.vector_norm(having - without))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_record_moves_the_solution_by_at_most_the_sensitivity(loss: str) -> None:
    # A coarse tolerance, which solutions do use up: it is a part of what they move by.
    @settings(max_examples=20, deadline=None)
    @given(
        st.lists(records_of(loss), max_size=6),
        records_of(loss),
        st.sampled_from([0.02, 1.0, 50.0]),
        st.sampled_from([0.5, 3.0]),
        st.sampled_from(["clip", "unit"]),
    )
    def check(records: Any, another: Any, weight: float, norm: float, scale: str) -> None:
        options = {"max_norm": norm, "scale": scale, "tolerance": 1e-3}
        problem = problem_of(loss, regularization=weight, **options)
        assert isinstance(problem.learner, OutputPerturbation)
        assert moved(problem, records, another) <= problem.learner.sensitivity(problem.facts)

    check()


@pytest.mark.parametrize("loss", LOSSES)
def test_the_sensitivity_is_nearly_met(loss: str) -> None:
    # Noise puts the minimum where the record's gradient is the largest that the loss has.
    problem = problem_of(loss, regularization=50.0, max_norm=2.0, scale="unit")
    assert isinstance(problem.learner, OutputPerturbation)
    another = dataset_of([[1.0, 0.0]], [-1e6 if loss == "huber" else 0.0])
    row = problem.rows(another).inputs[0]
    noise = torch.zeros(problem.learner.constants(problem.facts).outputs, 3, dtype=torch.float64)
    noise[-1] = -50.0 * 10 * row
    having, without = (
        problem.solution(dataset, noise.reshape(-1))
        for dataset in (another, dataset_of([[math.nan, 0.0]], [0.0]))
    )
    found = float(torch.linalg.vector_norm(having - without))
    sensitivity = problem.learner.sensitivity(problem.facts)
    assert 0.99 * sensitivity < found <= sensitivity


@pytest.mark.parametrize("loss", LOSSES)
def test_the_exact_gradient_at_a_solution_is_within_the_tolerance(loss: str) -> None:
    @settings(max_examples=20, deadline=None)
    @given(
        st.lists(records_of(loss), max_size=8),
        st.sampled_from([0.05, 1.0, 20.0]),
        st.lists(st.floats(-30, 30), min_size=9, max_size=9),
    )
    def check(records: Any, weight: float, drawn: list[float]) -> None:
        problem = problem_of(loss, regularization=weight, max_norm=1.5, hinge_width=0.01)
        constants = problem.learner.constants(problem.facts)
        noise = torch.tensor(drawn, dtype=torch.float64)[: 3 * constants.outputs]
        dataset = dataset_of([x for x, _ in records], [y for _, y in records])
        solution = problem.solution(dataset, noise)
        rows = problem.rows(dataset)
        exact = exact_gradient(rows, constants, solution, regularization=weight, noise=noise)
        assert np.sqrt((exact**2).sum()) <= problem.tolerance

    check()


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([0.0, 1.0, 1e3, 1e6]))
def test_a_measured_gradient_is_never_below_the_exact_one(
    loss: str, seed: int, size: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    problem = problem_of(loss, regularization=1e-3, max_norm=1.0, hinge_width=1e-3)
    constants = problem.learner.constants(problem.facts)
    inputs = torch.randn(700, 2, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 2, (700,), generator=generator).to(torch.float64)
    rows = problem.rows(dataset_of(inputs.tolist(), targets.tolist()))
    weights = size * torch.randn(3 * constants.outputs, generator=generator, dtype=torch.float64)
    nothing = torch.zeros_like(weights)
    noise = -Objective.of(rows, constants, regularization=1e-3, noise=nothing).gradient(weights)
    # With this noise the weights are a minimum: all that is left of a gradient is round-off.
    for added in (nothing, noise):
        objective = Objective.of(rows, constants, regularization=1e-3, noise=added)
        computed = objective.gradient(weights)
        exact = exact_gradient(rows, constants, weights, regularization=1e-3, noise=added)
        measured = objective.gradient_norm(weights, computed)
        off = np.sqrt(((computed.numpy() - exact) ** 2).sum())
        assert off <= measured - float(torch.linalg.vector_norm(computed))
        assert np.sqrt((exact**2).sum()) <= measured


@pytest.mark.parametrize("loss", LOSSES)
def test_a_solution_is_found_where_the_faster_methods_stall(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(loss, regularization=1.0)
    dataset = dataset_of([[1.0, 2.0], [-1.0, 0.5], [0.3, 0.1]], [0, 1, 1])
    usual = problem.solution(dataset)
    monkeypatch.setattr(solver, "_approach", lambda objective, _: torch.zeros_like(objective.noise))
    monkeypatch.setattr(solver, "_newton", lambda _, weights, __: weights)
    apart = float(torch.linalg.vector_norm(problem.solution(dataset) - usual))
    assert apart <= 2 * problem.tolerance


def test_products_are_as_precise_as_their_proof_says() -> None:
    generator = torch.Generator().manual_seed(3)
    for terms in (1, 3, 1000, 3000):
        left = torch.randn(2, terms, generator=generator, dtype=torch.float64)
        right = torch.randn(terms, 1, generator=generator, dtype=torch.float64)
        right[-1] = -(left[0, :-1] @ right[:-1, 0]) / left[0, -1]  # digits cancel in the first row
        found = precise_product(Split.of(left), Split.of(right))
        unit = float(left.abs().max() * right.abs().max())
        for row in range(2):
            pairs = zip(left[row].tolist(), right[:, 0].tolist(), strict=True)
            exact = sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0))
            off = abs(Fraction(float(found[row, 0])) - exact)
            assert off <= unit * product_round_off(terms) + abs(float(exact)) * 2.0**-52


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6),
    st.sampled_from([1e-6, 0.7, 3.0, 1e6]),
    st.sampled_from(["clip", "unit"]),
)
def test_no_vector_is_longer_than_the_bound(vector: list[float], norm: float, scale: Any) -> None:
    values = torch.tensor([vector], dtype=torch.float64)
    found = bound_vectors(values, max_norm=norm, scale=scale)[0].tolist()
    assert sum(Fraction(value) ** 2 for value in found) <= Fraction(norm) ** 2


class Raising(Dataset[Any]):
    """Records of which some raise, and one has another shape."""

    def __init__(self, good: Any, bad: str) -> None:
        self.good = good
        self.bad = bad

    def __len__(self) -> int:
        return len(self.good) + 1

    def __getitem__(self, index: int) -> Any:
        if index < len(self.good):
            return self.good[index]
        if self.bad == "raises":
            raise ValueError("the name of a person")
        if self.bad == "shape":
            return torch.ones(7), torch.tensor(1.0)
        if self.bad == "label":
            return torch.ones(2), torch.tensor(2.0)
        return torch.tensor([1.0, math.inf]), torch.tensor(1.0)


@pytest.mark.parametrize("bad", ["raises", "shape", "label", "infinite"])
def test_a_bad_record_contributes_nothing_and_says_nothing(
    bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good = dataset_of([[1.0, 2.0], [-1.0, 0.5], [0.3, 0.1]], [0, 1, 1])
    problem = problem_of("logistic", regularization=1.0)
    apart = problem.solution(Raising(good, bad)) - problem.solution(good)
    assert float(torch.linalg.vector_norm(apart)) <= 2 * problem.tolerance
    assert capsys.readouterr() == ("", "")


def test_the_bias_is_regularised_and_stands_inside_the_bound() -> None:
    problem = problem_of("logistic", regularization=2.0, max_norm=3.0)
    rows = problem.rows(dataset_of([[1e9, 5.0], [0.0, 0.0]], [1, 1]))
    lengths = torch.linalg.vector_norm(rows.inputs, dim=1)
    assert float(lengths.max()) <= 3.0
    assert float(rows.inputs[1, -1]) == pytest.approx(3.0 / math.sqrt(2))
    # All labels are 1: without regularisation of the bias there would be no minimum.
    one = problem.solution(dataset_of([[0.0, 0.0]] * 50, [1] * 50))
    assert 0 < float(one[-1]) < 50 * 3.0 / 2.0


def test_a_user_with_many_records_weighs_as_much_as_one_with_one() -> None:
    problem = problem_of("logistic", regularization=1.0, unit="user", tolerance="auto")
    many = [([1.0, 0.0], 1.0)] * 300
    few = [([0.0, 1.0], 0.0)]
    inputs, targets = zip(*[*many, *few], strict=True)
    dataset = with_users(dataset_of(inputs, targets), np.array([0] * 300 + [1]))
    weights = problem.rows(dataset).weights
    assert float(weights[:300].sum()) == pytest.approx(1)
    assert float(weights[300]) == 1
    together = problem.solution(dataset)
    alone = problem_of("logistic", regularization=1.0)
    apart = together - alone.solution(dataset_of([[1.0, 0.0], [0.0, 1.0]], [1, 0]))
    assert float(torch.linalg.vector_norm(apart)) < 1e-6


@pytest.mark.parametrize("kind", [OutputPerturbation, ObjectivePerturbation])
def test_what_rounding_hides_is_refused_before_anything_is_read(kind: Any) -> None:
    with pytest.raises(PrivacyRefusal, match=r"learner\.tolerance: expected at least"):
        kind(regularization=1.0, tolerance=1e-15).releases(facts_of("logistic"), scale=2.0)
    with pytest.raises(PrivacyRefusal, match=r"learner\.regularization: expected one at which"):
        kind(regularization=1e-300).releases(facts_of("logistic"), scale=2.0)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.floats(-5, 5), min_size=2, max_size=2), min_size=1, max_size=4),
    st.sampled_from([0.01, 0.5, 1.0, 30.0]),
    st.sampled_from(["clip", "unit"]),
    st.booleans(),
    st.sampled_from(LOSSES),
)
def test_a_layer_predicts_by_the_very_rows_that_its_solution_was_found_for(
    inputs: list[list[float]], norm: float, scale: Any, bias: bool, loss: str
) -> None:
    problem = problem_of(loss, regularization=1.0, max_norm=norm, scale=scale)
    network = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(2, problem.facts.outputs, bias=bias)
    )
    network = problem.learner.prepare(network.double(), problem.facts)
    dataset = dataset_of(inputs, [0.0] * len(inputs))
    job = replace(problem.job(dataset), module=network)
    rows = problem.learner.rows(job, None).inputs[: len(inputs)]
    layer = bounded_layer(network)
    generator = torch.Generator().manual_seed(0)
    solution = torch.randn(
        problem.facts.outputs, layer.row_width, generator=generator, dtype=torch.float64
    )
    layer.set_solution(solution)
    with torch.no_grad():
        found = network(dataset.tensors[0])
    torch.testing.assert_close(found, rows @ solution.T, rtol=1e-9, atol=1e-9 * norm)
