"""The transform against exact sums, and its bound on round-off."""

from __future__ import annotations

from unittest import mock

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import fft

from dppipe.privacy.pld import fft as fourier
from dppipe.privacy.pld.fft import UNIT, _weights, round_off, transform


def random_values(seed: int, size: int) -> NDArray[np.complex128]:
    rng = np.random.default_rng(seed)
    return np.asarray(np.exp(rng.uniform(-30, 0, size)) + 1j * np.exp(rng.uniform(-30, 0, size)))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4, 8, 32]))
def test_a_transform_is_the_sum_that_defines_it(seed: int, size: int) -> None:
    values = random_values(seed, size)
    with mpmath.workdps(40):
        turns = [mpmath.expjpi(mpmath.mpf(-2 * at) / size) for at in range(size)]
        exact = [
            mpmath.fsum(turns[j * t % size] * mpmath.mpmathify(values[t]) for t in range(size))
            for j in range(size)
        ]
        off = max(
            abs(mpmath.mpmathify(got) - want)
            for got, want in zip(transform(values), exact, strict=True)
        )
        assert off <= round_off(size) * mpmath.fsum(map(abs, map(mpmath.mpmathify, values)))


@pytest.mark.parametrize("size", [2**10, 2**16])
def test_a_long_transform_is_off_by_less_than_its_bound(size: int) -> None:
    """Against a transform in extended precision where there is one; else two of float64 are off by twice the bound at most."""
    values = random_values(size, size)
    exact = fft.fft(values.astype(np.clongdouble))
    off = np.abs(transform(values) - exact).max()
    assert off <= 2 * round_off(size) * np.abs(values).sum()
    assert round_off(size) < 400 * UNIT  # a bound that is of use


@pytest.mark.parametrize("size", [2, 8, 2**10, 2**21])
def test_weights_are_right_to_sixteen_units(size: int) -> None:
    weights = _weights(size)
    for place in np.unique(np.random.default_rng(size).integers(0, size // 2, 300)):
        with mpmath.workdps(40):
            assert (
                abs(
                    mpmath.mpmathify(weights[place])
                    - mpmath.expjpi(mpmath.mpf(-2 * int(place)) / size)
                )
                <= 16 * UNIT
            )


@pytest.mark.parametrize("size", [2**4, 2**16])
def test_the_bound_is_kept_by_weights_that_are_all_sixteen_units_too_small(size: int) -> None:
    """The last value goes through a weight at every level on its way to the last frequency."""
    values = np.zeros(size, dtype=np.complex128)
    values[-1] = 1.0
    with mock.patch.object(fourier, "_weights", lambda n: _weights(n) * (1 - 16 * UNIT)):
        found = transform(values)
    exact = np.exp(2j * np.pi * (np.arange(size, dtype=np.longdouble) / size))
    off = np.abs(found - exact).max()
    assert 12 * (size.bit_length() - 1) * UNIT < off <= round_off(size)
