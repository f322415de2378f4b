"""Output and objective perturbation, against quadrature, closed forms and published formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import log_ndtr

from dppipe.errors import PrivacyRefusal
from dppipe.learners.objective_perturbation import ObjectivePerturbation
from dppipe.learners.output_perturbation import OutputPerturbation
from dppipe.learners.perturbation.loss_constants import LossConstants
from dppipe.privacy.accountants import Basic, Pld
from dppipe.privacy.budget import Budget, Relation
from dppipe.privacy.calibration import calibrate
from dppipe.privacy.events.mechanisms import spherical
from dppipe.privacy.events.plain import event_from_data
from dppipe.privacy.gaussian import gaussian_delta, gaussian_epsilon
from dppipe.privacy.pld.profiles import directions
from dppipe.privacy.profiles.determinants import logistic_determinant, softmax_determinant
from dppipe.privacy.profiles.lines import LargestLine, perturbed_lines
from dppipe.privacy.rdp.divergences import divergences
from dppipe.privacy.release import PublicFacts


def event(kind: str, **numbers: float) -> Any:
    return event_from_data({"type": f"{kind}DpEvent", **numbers})


def logistic(sigma: float, regularization: float) -> Any:
    return event("LogisticObjective", noise_multiplier=sigma, leverage=1 / regularization)


def softmax(sigma: float, regularization: float, classes: int) -> Any:
    """Return the event at X = 1; its multiplier is over sqrt(2) X."""
    multiplier = sigma / math.sqrt(2)
    leverage = 1 / regularization
    return event(
        "SoftmaxObjective", noise_multiplier=multiplier, leverage=leverage, classes=classes
    )


def delta_of(made: Any, epsilon: float) -> float:
    (direction,) = directions(made, relation="zero_out")
    return float(direction.profile(np.array([epsilon]))[0])


def calibrated(at: Callable[[float], Any], epsilon: float) -> float:
    budget = Budget(epsilon=epsilon, delta=1e-5)
    return calibrate(Pld(), lambda scale: [(at(scale), 1)], budget=budget).scale


def test_logistic_delta_is_the_gaussians_where_lambda_is_large_enough() -> None:
    assert delta_of(logistic(5, 10), 1) == pytest.approx(1.75463e-8, rel=1e-5)
    cost = Pld().compose([(logistic(5, 10), 1)], relation="zero_out").epsilon(1e-5)
    assert cost == pytest.approx(0.725522, abs=1e-5)
    assert gaussian_epsilon(5, 1e-5) == pytest.approx(0.725522, abs=1e-5)


def test_the_published_two_signed_form_asks_for_more() -> None:
    # Redberg, Koskela and Wang 2023: -ln(1 - beta/lambda) in place of ln(1 + beta/lambda).
    published = math.expm1(-math.log1p(-0.025))
    made = event("TwoSignedObjective", noise_multiplier=5.0, curvature=published)
    assert delta_of(made, 1) == pytest.approx(6.78004e-8, rel=1e-5)
    cost = Pld().compose([(made, 1)], relation="zero_out").epsilon(1e-5)
    assert cost == pytest.approx(0.784896, abs=1e-5)
    found = divergences(made, relation="zero_out", orders=(2.0, 8.0))
    assert found == pytest.approx([0.212461, 0.272310], abs=1e-5)


def test_epsilon_of_a_small_lambda() -> None:
    cost = Pld().compose([(logistic(5, 1), 1)], relation="zero_out").epsilon(1e-5)
    assert cost == pytest.approx(0.73377, abs=1e-4)


def test_one_signed_divergences() -> None:
    made = event("OneSignedObjective", noise_multiplier=5.0, curvature=0.025)
    found = divergences(made, relation="zero_out", orders=(2.0, 8.0))
    assert found == pytest.approx([0.122999, 0.196128], abs=1e-5)


@pytest.mark.parametrize(
    ("epsilon", "regularization", "expected"),
    [
        (0.1, 3, 70.56),
        (0.1, 10, 30.7496),
        (0.1, 20, 30.74957),
        (0.5, 1, 7.7850),
        (0.5, 3, 7.0318),
        (1, 0.3, 5.2219),
        (1, 10, 3.730632),
        (1, 30, 3.730632),
        (3, 0.1, 1.5715),
        (3, 0.3, 1.3906),
    ],
)
def test_logistic_noise_for_a_budget(
    epsilon: float, regularization: float, expected: float
) -> None:
    found = calibrated(lambda scale: logistic(scale, regularization), epsilon)
    # A scale is rounded up to five digits.
    assert expected * (1 - 1e-6) - 1e-3 <= found <= expected * (1 + 1e-4) + 1e-3


@pytest.mark.parametrize(("epsilon", "regularization"), [(0.1, 1), (0.5, 0.3), (1, 0.1)])
def test_a_lambda_that_no_noise_can_keep_is_named(epsilon: float, regularization: float) -> None:
    constants = LossConstants(loss="logistic", max_norm=1.0)
    assert regularization < constants.least_regularization(epsilon)
    learner = ObjectivePerturbation(regularization=regularization)
    (problem,) = learner.problems(facts("binary", epsilon=epsilon))
    assert problem[0] == ("learner", "regularization")


def test_the_noise_of_the_published_forms() -> None:
    def published(regularization: float) -> Callable[[float], Any]:
        curvature = math.expm1(-math.log1p(-0.25 / regularization))
        return lambda z: event("TwoSignedObjective", noise_multiplier=z, curvature=curvature)

    assert calibrated(published(10), 1) == pytest.approx(3.976531, abs=1e-4)
    assert calibrated(published(20), 0.1) == pytest.approx(36.76263, abs=2e-3)
    assert calibrated(published(200), 0.1) == pytest.approx(32.86456, abs=2e-3)
    assert math.sqrt(8 * math.log(2 / 1e-5) + 4) == pytest.approx(10.082092, abs=1e-5)


def test_the_union_bound_of_softmax_lies_just_above_the_exact_integral() -> None:
    for classes, exact, union in [(3, 4.62570e-5, 4.69058e-5), (10, 1.92671e-4, 2.11076e-4)]:
        found = delta_of(softmax(5, 1e9, classes), 1)
        assert found == pytest.approx(union, rel=1e-4)
        assert found > exact


def test_softmax_noise_for_a_budget() -> None:
    for epsilon, union in [(1, 5.94396), (3, 2.17381)]:
        found = calibrated(lambda scale: softmax(scale, 1e9, 10), epsilon)
        assert union - 1e-4 <= found <= union * (1 + 1e-4)
    single = calibrated(lambda z: event("Gaussian", noise_multiplier=z), 1) * math.sqrt(2)
    assert single == pytest.approx(5.27591, rel=1e-4)


def test_what_the_determinant_adds() -> None:
    assert logistic_determinant(5, 0.1) == pytest.approx(0.02, abs=1e-4)
    assert softmax_determinant(5.944 / math.sqrt(2), 0.1, 10) == pytest.approx(0.07726, abs=1e-4)
    assert softmax_determinant(2.1738 / math.sqrt(2), 1 / 3, 10) == pytest.approx(0.20477, abs=1e-4)


@pytest.mark.parametrize(
    ("regularization", "sigma", "epsilon", "first_order"),
    [
        (10, 5, 1, 1.755210e-8),
        (1, 5, 0.73377, 1.002051e-5),
        (0.3, 5.22189, 1, 1.002729e-5),
        (0.1, 1.57148, 3, 1.002842e-5),
    ],
)
def test_lines_lie_between_quadrature_and_lines_of_first_order(
    regularization: float, sigma: float, epsilon: float, first_order: float
) -> None:
    s = 1 / sigma
    lines = LargestLine.of(*perturbed_lines(s, 1 / regularization))
    found = float(lines.delta(np.array([epsilon]))[0])
    truth = quadrature(s, 1 / regularization, epsilon)
    assert truth <= found <= first_order
    assert found == pytest.approx(truth, rel=1e-4)


def quadrature(s: float, leverage: float, epsilon: float) -> float:
    """Return E (1 - e^(epsilon - h(Z)))_+ from below: h over values of a, Z by rectangles."""
    z = np.linspace(-10, 10, 20001)
    a = np.linspace(0, 1, 1001)[:, None]
    largest = np.full(len(z), -np.inf)
    for part in np.array_split(a, 20):
        height = np.log1p(part * (1 - part) * leverage) + part**2 * s**2 / 2 + part * s * z
        largest = np.maximum(largest, height.max(axis=0))
    values = np.maximum(0, -np.expm1(epsilon - largest)) * np.exp(-(z**2) / 2)
    return float(values.sum() * (z[1] - z[0]) / math.sqrt(2 * math.pi)) * (1 - 1e-9)


def facts(task: str = "binary", *, epsilon: float = 1.0, outputs: int = 1) -> PublicFacts:
    return PublicFacts(
        records=1000,
        unit="example",
        relation="zero_out",
        input_shape=(5,),
        outputs=outputs,
        task=task,
        epsilon=epsilon,
    )


def test_the_sensitivity_of_output_perturbation() -> None:
    exact = OutputPerturbation(regularization=10.0, tolerance=1e-10)
    assert exact.sensitivity(facts()) == pytest.approx(0.1, abs=1e-9)
    rough = OutputPerturbation(regularization=10.0, tolerance=1e-6)
    assert rough.sensitivity(facts()) == pytest.approx(0.1000002, abs=1e-9)
    (release,) = rough.releases(facts(), scale=3.0)
    replaced = Pld().compose([(release.event, 1)], relation="replace_one").epsilon(1e-5)
    assert replaced == pytest.approx(gaussian_epsilon(1.5, 1e-5), rel=1e-4)


@pytest.mark.parametrize(("epsilon", "left"), [(1.0, 0.9753073874), (0.1, 0.0753073874)])
def test_pure_noise_pays_for_the_determinant(epsilon: float, left: float) -> None:
    constants = LossConstants(loss="logistic", max_norm=1.0)
    added = constants.log_determinant(10.0)
    assert epsilon - added == pytest.approx(left, abs=1e-9)
    replaced = epsilon - math.log(1 + 2 * 0.025 + 0.025**2)  # the published form, as a check
    assert replaced == pytest.approx(2 * left - epsilon, abs=1e-9)
    cost = Basic().compose([(spherical(1 / left, log_determinant=added), 1)], relation="zero_out")
    assert cost.epsilon(1e-9) == pytest.approx(epsilon, abs=1e-9)


@pytest.mark.parametrize(("bound", "asked", "reached"), [(12, 2, 2.4230065), (50, 1, 2.8463790)])
def test_a_determinant_with_x_in_place_of_x_squared_breaks_its_claim(
    bound: float, asked: float, reached: float
) -> None:
    # In one dimension, a record x = R in place of x = 0, with c R where c R^2 belongs.
    left = asked - 2 * math.log1p(bound / 4)
    regularization = 1.0
    if left <= 0:
        regularization = bound / 4 / math.expm1(asked / 4)
        left = asked / 2
    loss = math.log1p(bound**2 / 4 / regularization) + left / 4
    assert loss == pytest.approx(reached, abs=1e-6)
    ours = LossConstants(loss="logistic", max_norm=bound)
    assert ours.log_determinant(regularization) == pytest.approx(
        math.log1p(bound**2 / 4 / regularization)
    )


@pytest.mark.parametrize("relation", ["zero_out", "add_remove"])
def test_a_logistic_loss_with_a_large_lambda_is_charged_as_a_gaussian(relation: Relation) -> None:
    constants = LossConstants(loss="logistic", max_norm=2.0)
    made = constants.event(3.0, 2 * 36.0 * (1 + 1e-9))
    assert made == event("Gaussian", noise_multiplier=3.0)
    less: Any = constants.event(3.0, 2 * 36.0 * (1 - 1e-9))
    assert type(less).__name__ == "LogisticObjectiveDpEvent"
    for epsilon in (0.0, 0.1, 1.0):
        assert delta_of(less, epsilon) == pytest.approx(float(gaussian_delta(epsilon, 3)), rel=1e-6)
    assert Pld().compose([(made, 1)], relation=relation).certified


def test_two_signs_below_their_bend() -> None:
    made = event("TwoSignedObjective", noise_multiplier=1.0, curvature=0.5)
    shift = math.log(1.5)
    expected = 1 - 2 * math.exp(0.3 - shift + float(log_ndtr(-1.0)))
    assert delta_of(made, 0.3) == pytest.approx(expected, rel=1e-9)


def test_a_replaced_record_costs_spherical_noise_twice_and_has_no_proof_in_an_objective() -> None:
    costs: dict[Relation, float] = {"zero_out": 0.5, "add_remove": 0.5, "replace_one": 1.0}
    for relation, expected in costs.items():
        cost = Basic().compose([(spherical(2.0), 1)], relation=relation)
        assert cost.epsilon(1e-9) == pytest.approx(expected, rel=1e-9)
    inside = spherical(2.0, log_determinant=0.1)
    with pytest.raises(PrivacyRefusal, match="replace_one"):
        Basic().compose([(inside, 1)], relation="replace_one")


def test_what_softmax_adds_to_the_determinant_is_at_least_that_of_equal_shares() -> None:
    # At equal probabilities the Hessian of one record has K - 1 eigenvalues of X^2 / K.
    for classes in (2, 3, 10):
        constants = LossConstants(loss="softmax", max_norm=2.0, outputs=classes)
        matrix = np.eye(classes) / classes - np.full((classes, classes), 1 / classes**2)
        truth = np.linalg.slogdet(np.eye(classes) + matrix * 4.0 / 0.7)[1]
        assert constants.log_determinant(0.7) == pytest.approx(truth, rel=1e-9)
