"""Gumbel values: their distribution, both tails, and that every word gives a finite one."""

from __future__ import annotations

import math

import numpy
import pytest
from numpy.typing import NDArray
from randomness.chosen_words import ChosenWords, edge_words, random_words
from scipy import stats

from dppipe.randomness.gumbel import GumbelStream
from dppipe.randomness.streams import stream_key

SIZE = 1_000_000


def from_words(words: NDArray[numpy.uint64]) -> NDArray[numpy.float64]:
    stream = GumbelStream(stream_key("selection"))
    stream._keystream = ChosenWords(words)  # type: ignore[assignment]
    return stream.draw(len(words))


def by_two_logarithms(words: NDArray[numpy.uint64]) -> NDArray[numpy.float64]:
    """The usual mistake: U is rounded to float64 before 1 - U is needed."""
    with numpy.errstate(divide="ignore"):
        return -numpy.log(-numpy.log((words.astype(float) + 0.5) * 2.0**-64))


def upper_tail_pvalue(values: NDArray[numpy.float64], *, ones: int) -> float:
    """Return the p-value of values whose words begin with ones.

    There 1 - Pr(Gumbel <= value) is uniform on (0, 2^-ones).
    """
    uniform = -numpy.expm1(-numpy.exp(-values)) * 2.0**ones
    return float(stats.kstest(uniform, stats.uniform.cdf).pvalue)


def test_values_follow_the_gumbel_distribution() -> None:
    """Kolmogorov-Smirnov over a million values. False alarms: 1e-6."""
    values = GumbelStream(stream_key("selection")).draw(SIZE)
    assert values.dtype == numpy.float64
    assert values.shape == (SIZE,)
    assert stats.kstest(values, stats.gumbel_r.cdf).pvalue > 1e-6


def test_mean_and_variance_are_right() -> None:
    """Within 6 standard errors (kurtosis 5.4): false alarms below 1e-8."""
    values = GumbelStream(stream_key("selection")).draw(SIZE)
    variance = math.pi**2 / 6
    assert abs(values.mean() - numpy.euler_gamma) < 6 * math.sqrt(variance / SIZE)
    assert abs(values.var() - variance) < 6 * variance * math.sqrt(4.4 / SIZE)


def test_as_many_values_as_there_should_be_lie_in_the_tails() -> None:
    """Counts of a million values beyond 8, and below -2, against the binomial law.

    False alarms: below 1e-8.
    """
    values = GumbelStream(stream_key("selection")).draw(SIZE)
    for count, probability in (
        (int((values > 8).sum()), stats.gumbel_r.sf(8)),
        (int((values < -2).sum()), stats.gumbel_r.cdf(-2)),
    ):
        law = stats.binom(SIZE, probability)
        assert law.cdf(count) > 2e-9
        assert law.sf(count - 1) > 2e-9


@pytest.mark.parametrize("ones", [10, 20, 30, 40, 50])
def test_the_upper_tail_has_the_law_of_a_gumbel(ones: int) -> None:
    """Beyond 34. Kolmogorov-Smirnov over 200,000 values. False alarms: 1e-6 each."""
    assert upper_tail_pvalue(from_words(random_words(200_000, ones=ones)), ones=ones) > 1e-6


def test_a_uniform_in_float64_fails_the_upper_tail_test() -> None:
    """The test above has power: it finds the mistake that it is there for."""
    words = random_words(200_000, ones=50)
    assert upper_tail_pvalue(by_two_logarithms(words), ones=50) < 1e-9


@pytest.mark.parametrize("zeros", [10, 20, 30, 40, 50])
def test_the_lower_tail_has_the_law_of_a_gumbel(zeros: int) -> None:
    """If a word begins with zeros, exp(-G) exceeds zeros * ln 2 by an exponential value.

    Kolmogorov-Smirnov over 200,000 values. False alarms: 1e-6 each.
    """
    values = from_words(random_words(200_000, zeros=zeros))
    excess = numpy.exp(-values) - zeros * math.log(2)
    assert stats.kstest(excess, stats.expon.cdf).pvalue > 1e-6


def test_every_edge_of_the_words_gives_a_finite_value() -> None:
    with numpy.errstate(all="raise"):
        values = from_words(edge_words())
    assert values.max() == pytest.approx(65 * math.log(2), rel=1e-14)
    assert values.min() == pytest.approx(-math.log(65 * math.log(2)), rel=1e-14)
    assert (numpy.diff(values) >= 0).all()
    assert numpy.isinf(by_two_logarithms(edge_words())).any()
