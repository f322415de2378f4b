"""Laplace noise: its distribution, its tails, and that a key gives it again."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from dppipe.randomness.laplace import LaplaceStream
from dppipe.randomness.streams import stream_key

SIZE = 1_000_000


def drawn(
    scale: float = 1.0, *, dtype: torch.dtype = torch.float64, size: int = SIZE
) -> torch.Tensor:
    return LaplaceStream(stream_key("noise")).add_(torch.zeros(size, dtype=dtype), std=scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_follow_the_laplace_distribution(dtype: torch.dtype) -> None:
    """A Kolmogorov-Smirnov test over a million values; a false alarm in a million."""
    values = drawn(2.5, dtype=dtype).double().numpy()
    assert stats.kstest(values, stats.laplace(scale=2.5).cdf).pvalue > 1e-6


def test_moments_are_right() -> None:
    """Mean, variance and fourth moment within 6 standard errors: false alarms below 1e-8."""
    values = drawn()
    for power, moment, variance in ((1, 0, 2), (2, 2, 24 - 4), (4, 24, math.factorial(8) - 24**2)):
        assert abs(float(values.pow(power).mean()) - moment) < 6 * math.sqrt(variance / SIZE)


def test_tails_reach_as_far_as_they_should() -> None:
    """Beyond 10 scales lie 45 of a million values: between 10 and 110 of them but once in 1e8
    times.
    """
    assert 10 < int((drawn().abs() > 10).sum()) < 110


def test_noise_is_added_to_what_is_there_and_differs_between_calls() -> None:
    stream, flat = LaplaceStream(stream_key("noise")), torch.full((1000,), 1e6, dtype=torch.float64)
    once = stream.add_(flat.clone(), std=1.0) - 1e6
    again = stream.add_(flat.clone(), std=1.0) - 1e6
    assert abs(float(once.mean())) < 1
    assert not torch.equal(once, again)


def test_a_seeded_stream_repeats_itself() -> None:
    one, two = (
        LaplaceStream(stream_key("noise", seed=7)).add_(torch.zeros(300_000), std=1.0)
        for _ in range(2)
    )
    assert torch.equal(one, two)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="noise"):
        drawn(scale, size=3)


def test_extreme_words_give_finite_values() -> None:
    class Words:
        def bytes(self, length: int) -> bytes:
            import numpy

            return numpy.array([0, -1, 2**63 - 1, -(2**63)], numpy.int64).tobytes()

    stream = LaplaceStream(stream_key("noise"))
    stream._keystream = Words()  # type: ignore[assignment]
    values = stream.add_(torch.zeros(4, dtype=torch.float64), std=1.0)
    assert values.abs().tolist() == pytest.approx([44.3614, 43.2628, 0.0, 0.0], abs=1e-3)


def test_a_stream_does_not_show_its_key() -> None:
    assert "secret" in repr(LaplaceStream(stream_key("noise")))
