"""Spherical noise: its norm, its direction, one dimension as Laplace noise, and many dimensions."""

from __future__ import annotations

import math
import os

import numpy
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from dppipe.randomness.spherical import SphericalStream
from dppipe.randomness.streams import stream_key

ALARM = 1e-6


def vectors(count: int, *, dimensions: int) -> NDArray[numpy.float64]:  # -> [count, dimensions]
    stream = SphericalStream(stream_key("release"))
    return numpy.stack([stream.draw(dimensions) for _ in range(count)])


def norms(sample: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    return numpy.sqrt(numpy.square(sample).sum(axis=1))


@pytest.mark.parametrize(
    ("dimensions", "count"),
    [(1, 30_000), (2, 30_000), (3, 30_000), (10, 30_000), (1000, 3000), (100_000, 60)],
)
def test_norms_follow_the_gamma_distribution(dimensions: int, count: int) -> None:
    """Kolmogorov-Smirnov. False alarms: 1e-6 each."""
    stream = SphericalStream(stream_key("release"))
    sizes = [math.sqrt(numpy.square(stream.draw(dimensions)).sum()) for _ in range(count)]
    assert stats.kstest(sizes, stats.gamma(dimensions).cdf).pvalue > ALARM


def test_one_dimension_is_laplace_noise() -> None:
    """Kolmogorov-Smirnov over 50,000 values. False alarms: 1e-6."""
    assert stats.kstest(vectors(50_000, dimensions=1)[:, 0], stats.laplace.cdf).pvalue > ALARM


@pytest.mark.parametrize("dimensions", [2, 3, 10])
def test_each_coordinate_of_a_direction_is_that_of_a_uniform_one(dimensions: int) -> None:
    """Its square has the law Beta(1/2, (d - 1)/2), and its sign is fair.

    Kolmogorov-Smirnov and a binomial test. False alarms: 1e-6 for each of 2 d comparisons.
    """
    sample = vectors(30_000, dimensions=dimensions)
    directions = sample / norms(sample)[:, None]
    law = stats.beta(0.5, (dimensions - 1) / 2)
    for coordinate in directions.T:
        assert stats.kstest(coordinate**2, law.cdf).pvalue > ALARM
        assert stats.binomtest(int((coordinate > 0).sum()), len(coordinate)).pvalue > ALARM


def test_angles_in_the_plane_are_uniform() -> None:
    """Kolmogorov-Smirnov over 30,000 angles. False alarms: 1e-6."""
    sample = vectors(30_000, dimensions=2)
    turns = numpy.arctan2(sample[:, 1], sample[:, 0]) / (2 * math.pi) + 0.5
    assert stats.kstest(turns, stats.uniform.cdf).pvalue > ALARM


def test_a_projection_on_a_fixed_direction_is_that_of_any_coordinate() -> None:
    """Two-sample Kolmogorov-Smirnov in 5 dimensions. False alarms: 1e-6."""
    along = vectors(30_000, dimensions=5).sum(axis=1) / math.sqrt(5)
    assert stats.ks_2samp(along, vectors(30_000, dimensions=5)[:, 0]).pvalue > ALARM


@pytest.mark.parametrize("lag", [0, 1])
def test_norm_and_direction_are_independent(lag: int) -> None:
    """Correlation of norms with first coordinates squared, of this and the next vector.

    Both are centred by their exact means. Within 6 standard errors: false alarms below 1e-8.
    """
    count = 30_000
    sample = vectors(count, dimensions=3)
    sizes = norms(sample)
    squares = (sample[:, 0] / sizes) ** 2 - 1 / 3
    centred = sizes - 3
    products = centred[lag:] * squares[: count - lag]
    error = math.sqrt(3 * (stats.beta(0.5, 1).var()) / len(products))
    assert abs(products.mean()) < 6 * error


@pytest.mark.parametrize("dimensions", [131_071, 131_072, 131_073, 400_001])
def test_vectors_of_several_blocks_are_filled_to_the_end(dimensions: int) -> None:
    """The norm is within 8 standard deviations, and so is that of the last thousand values.

    False alarms: below 1e-12.
    """
    vector = SphericalStream(stream_key("release")).draw(dimensions)
    assert vector.shape == (dimensions,)
    assert abs(norms(vector[None])[0] - dimensions) < 8 * math.sqrt(dimensions)
    last = numpy.square(vector[-1000:]).sum() / dimensions
    assert abs(last - 1000) < 8 * math.sqrt(2000) + 20


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_scaled_vector_is_added_to_the_sums_and_divided_last(dtype: torch.dtype) -> None:
    key = os.urandom(32)
    sums = torch.linspace(-5, 5, 1001, dtype=dtype)
    vector = torch.from_numpy(SphericalStream(key).draw(1001)) * 0.25
    flat = sums.clone()
    assert SphericalStream(key).add_(flat, std=0.25, over=48.5) is flat
    assert torch.equal(flat, (sums.double() + vector).to(dtype) / 48.5)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="noise"):
        SphericalStream(stream_key("release")).add_(torch.zeros(3), std=scale)


def test_an_empty_vector_is_left_as_it_is() -> None:
    assert SphericalStream(stream_key("release")).draw(0).shape == (0,)
    assert SphericalStream(stream_key("release")).add_(torch.zeros(0), std=1.0).shape == (0,)


def test_normal_values_that_are_all_zero_are_drawn_again() -> None:
    stream = SphericalStream(stream_key("release"))
    zeros_then_ones = [numpy.zeros(4), numpy.ones(4)]
    stream._normals = lambda dimensions: zeros_then_ones.pop(0)  # type: ignore[method-assign]
    vector = stream.draw(4)
    assert (vector == vector[0]).all()
    assert vector[0] > 0
