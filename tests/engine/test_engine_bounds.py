"""The bound holds after any clipper, whatever it returns."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dppipe.engine.bounds import bounded_factors, enforce_bounds

NORMS = (0.0, 1e-30, 1e-12, 1e-6, 1.0, 1e6, 1e20, 3e38, math.inf, math.nan)
FACTORS = (-math.inf, -1.0, 0.0, 1e-30, 0.5, 1.0, 1e30, 3e38, math.inf, math.nan)


@pytest.mark.parametrize(("norm", "factor"), list(itertools.product(NORMS, FACTORS)))
def test_no_factor_lets_an_example_exceed_its_bound(norm, factor):
    applied = enforce_bounds(torch.tensor([[factor]]), torch.tensor([[norm]]), torch.tensor([0.7]))
    assert torch.isfinite(applied).all()
    assert applied >= 0
    if math.isfinite(norm):
        assert float(applied) * norm <= 0.7 * (1 + 1e-6)
    else:
        assert applied == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(
    norm=st.floats(0, 2.0**100, width=32),
    factor=st.floats(allow_nan=True, allow_infinity=True, width=32),
    bound=st.floats(2**-20, 1000, width=32),
)
def test_factor_times_norm_stays_within_the_bound(dtype, norm, factor, bound):
    applied = enforce_bounds(
        torch.tensor([[factor]], dtype=dtype),
        torch.tensor([[norm]], dtype=dtype),
        torch.tensor([bound], dtype=dtype),
    )
    assert 0 <= float(applied) * norm <= bound * (1 + 1e-6)


def test_an_allowed_factor_is_left_as_it_is():
    factors = torch.tensor([[0.25, 1.0], [1.0, 0.0]])
    norms = torch.tensor([[4.0, 1.0], [0.0, 3.0]])
    assert torch.equal(enforce_bounds(factors, norms, torch.tensor([1.0, 1.0])), factors)


def test_each_group_has_its_own_bound():
    applied = enforce_bounds(
        torch.full((1, 3), 5.0), torch.full((1, 3), 2.0), torch.tensor([1.0, 4.0, 20.0])
    )
    assert applied.tolist() == [[0.5, 2.0, 5.0]]


def test_a_clipper_sees_one_example_at_a_time():
    seen = []

    class Curious:
        def factors(self, norms, bounds):
            seen.append((norms.shape, bounds.shape))
            return norms - norms.mean()

    bounded_factors(Curious(), torch.rand(5, 3), torch.ones(3))
    assert seen == [((3,), (3,))]


def test_an_empty_batch_has_no_factors():
    assert bounded_factors(None, torch.zeros(0, 2), torch.ones(2)).shape == (0, 2)
