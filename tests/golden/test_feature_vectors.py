"""Numbers of private principal components that were computed by other means."""

from __future__ import annotations

import math

import pytest
import torch

from dppipe.data.features.pca import PrivatePca
from dppipe.learners.inputs.projection import ProjectionStage
from dppipe.learners.inputs.second_moments import to_matrix
from dppipe.privacy.budget import Budget


def test_noise_of_a_matrix_that_costs_epsilon_1_at_delta_1e_5() -> None:
    """The Gaussian multiplier at (1, 1e-5) is 3.730632, by closed form and by dp_accounting."""
    pca = PrivatePca(components=1, max_norm=1.0, budget_share=0.5)
    release = pca.release(Budget(epsilon=2.0, delta=1e-5))
    assert release.event.noise_multiplier == pytest.approx(3.730632, abs=1e-5)
    assert pca.sensitivity == pytest.approx(1.0, rel=1e-6)


def test_noise_on_the_diagonal_is_the_square_root_of_2_times_that_beside_it() -> None:
    """Unit noise on the vector: 5.275910 and 3.730632 in the matrix are 3.730632 times sqrt 2 and 1,
    where the vector's noise is that of a bound sqrt 2."""
    vector = torch.full((6,), 5.275910, dtype=torch.float64)
    matrix = to_matrix(vector, 3)
    assert float(matrix[1, 1]) == pytest.approx(5.275910, abs=1e-5)
    assert float(matrix[0, 2]) == pytest.approx(3.730632, abs=1e-5)
    assert float(matrix[2, 0]) == float(matrix[0, 2])


@pytest.mark.parametrize(("max_norm", "expected"), [(2.0, 4.0), (0.5, 0.25), (3.5, 12.25)])
def test_the_sensitivity_is_the_square_of_the_bound(max_norm: float, expected: float) -> None:
    pca = PrivatePca(components=1, max_norm=max_norm, noise_multiplier=1.0)
    assert pca.sensitivity == pytest.approx(expected, rel=1e-6)
    assert pca.sensitivity >= expected
    long = torch.tensor([[30.0, 40.0]], dtype=torch.float64)
    total = ProjectionStage(pca).total(long, None)
    # x x' of the clipped record (0.6, 0.8) X, off-diagonal times sqrt 2.
    parts = torch.tensor([0.36, math.sqrt(2) * 0.48, 0.64], dtype=torch.float64)
    torch.testing.assert_close(total, expected * parts, rtol=2e-5, atol=0)
