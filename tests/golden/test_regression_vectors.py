"""Linear regression from noisy sums, against closed forms and the published noise of AdaSSP."""

from __future__ import annotations

import math

import pytest
import torch
from learners.perturbed import facts_of

from dppipe.learners.linear_regression import LinearRegression
from dppipe.learners.regression.moments import unstack
from dppipe.learners.regression.ridge import joint_ridge
from dppipe.privacy.accountants import Pld
from dppipe.privacy.budget import Budget
from dppipe.privacy.calibration import calibrate
from dppipe.privacy.gaussian import gaussian_epsilon

Z = 3.730632
"""The multiplier of one Gaussian release at (1, 1e-5)."""


FACTS = facts_of("huber")


def learner(method: str = "joint", **options: float) -> LinearRegression:
    given = {"method": method, "max_norm": 1.0, "target_bound": 1.0, **options}
    return LinearRegression.from_data(given)


def test_the_noise_of_a_joint_release_on_and_off_the_diagonal() -> None:
    assert gaussian_epsilon(Z, 1e-5) == pytest.approx(1.0, abs=1e-5)
    std = Z * learner().sensitivity(FACTS)
    ones = torch.full((6 + 15 + 6,), std, dtype=torch.float64)
    noise = unstack(ones, width=6, outputs=1)
    assert float(noise.squares[2, 2]) == pytest.approx(5.275910, abs=1e-5)
    assert float(noise.products[3, 0]) == pytest.approx(5.275910, abs=1e-5)
    assert float(noise.squares[1, 4]) == pytest.approx(3.730632, abs=1e-5)


def test_the_noise_of_adassp_and_that_of_its_paper() -> None:
    each = Z * learner("adassp").sensitivity(FACTS)
    assert each == pytest.approx(6.461644, abs=1e-5)
    published = math.sqrt(math.log(6 / 1e-5)) / (1 / 3)
    assert published == pytest.approx(10.942676, abs=1e-5)
    assert gaussian_epsilon(published / math.sqrt(3), 1e-5) == pytest.approx(0.561944, abs=1e-5)


@pytest.mark.parametrize("method", ["joint", "adassp"])
def test_a_budget_is_spent_on_one_gaussian_release(method: str) -> None:
    found = calibrate(
        Pld(),
        lambda scale: [(r.event, 1) for r in learner(method).releases(FACTS, scale=scale)],
        budget=Budget(epsilon=1.0, delta=1e-5),
    )
    # A scale is rounded up to five digits.
    assert Z - 1e-5 <= found.scale <= Z * (1 + 1e-4)


@pytest.mark.parametrize("bound", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("target_bound", [0.2, 7.0])
def test_the_sensitivity_is_that_of_squares_and_weighted_products(
    bound: float, target_bound: float
) -> None:
    weight = bound / target_bound
    square = bound**4 + weight**2 * bound**2 * target_bound**2
    joint = learner(max_norm=bound, target_bound=target_bound).sensitivity(FACTS)
    assert joint == pytest.approx(math.sqrt(square), rel=1e-6)
    assert joint > math.sqrt(square)
    adassp = learner("adassp", max_norm=bound, target_bound=target_bound).sensitivity(FACTS)
    assert adassp == pytest.approx(math.sqrt(square + bound**4), rel=1e-6)


def test_classes_have_targets_of_a_known_norm() -> None:
    plain = LinearRegression(max_norm=1.0)
    assert plain.bound_of_targets(facts_of("logistic")) == 1.0
    assert plain.bound_of_targets(facts_of("softmax", outputs=5)) == pytest.approx(
        math.sqrt(0.8), abs=1e-12
    )


def test_the_ridge_is_the_spectral_norm_of_the_noise() -> None:
    width = 400
    generator = torch.Generator().manual_seed(0)
    count = width + width * (width - 1) // 2 + width
    noise = unstack(
        torch.randn(count, generator=generator, dtype=torch.float64), width=width, outputs=1
    )
    largest = float(torch.linalg.eigvalsh(noise.squares).abs().max())
    assert joint_ridge(width, 1.0) == pytest.approx(math.sqrt(800), abs=1e-9)
    assert largest == pytest.approx(joint_ridge(width, 1.0), rel=0.05)
