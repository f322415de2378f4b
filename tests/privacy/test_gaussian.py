"""The Gaussian mechanism against forty digits."""

from __future__ import annotations

import math

import mpmath
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.privacy.gaussian import gaussian_delta


def exact_delta(epsilon: float, s: float) -> mpmath.mpf:
    """Write delta out: Phi(a) - e^epsilon Phi(b), in mpmath's own precision."""
    epsilon, s = mpmath.mpf(epsilon), mpmath.mpf(s)
    return mpmath.ncdf(1 / (2 * s) - epsilon * s) - mpmath.exp(epsilon) * mpmath.ncdf(-1 / (2 * s) - epsilon * s)


@settings(max_examples=300, deadline=None)
@given(st.floats(math.log(0.02), math.log(1e5)), st.floats(-12, 12))
def test_delta_is_never_below_the_exact_value_and_next_to_it(log_s: float, where: float) -> None:
    s = math.exp(log_s)
    epsilon = (0.5 / s - where) / s
    with mpmath.workdps(60):
        exact = exact_delta(epsilon, s)
        found = float(gaussian_delta(epsilon, s))
        assert exact <= found <= min(1, exact * (1 + 1e-9 * (1 + s)))
