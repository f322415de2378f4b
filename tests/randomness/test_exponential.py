"""Exponential values: their distribution, both tails, and that every word gives a usable one."""

from __future__ import annotations

import math

import numpy
import pytest
from randomness.chosen_words import ChosenWords, edge_words, random_words
from scipy import stats

from dppipe.randomness.exponential import ExponentialStream, exponentials
from dppipe.randomness.streams import stream_key

SIZE = 1_000_000


def test_values_follow_the_exponential_distribution() -> None:
    """Kolmogorov-Smirnov over a million values. False alarms: 1e-6."""
    values = ExponentialStream(stream_key("selection")).draw(SIZE)
    assert values.dtype == numpy.float64
    assert values.shape == (SIZE,)
    assert stats.kstest(values, stats.expon.cdf).pvalue > 1e-6


def test_moments_are_right() -> None:
    """Mean and second moment within 6 standard errors: false alarms below 1e-8."""
    values = ExponentialStream(stream_key("selection")).draw(SIZE)
    for power in (1, 2):
        mean = math.factorial(power)
        variance = math.factorial(2 * power) - mean**2
        assert abs((values**power).mean() - mean) < 6 * math.sqrt(variance / SIZE)


@pytest.mark.parametrize("lag", [1, 2, 64])
def test_values_are_independent(lag: int) -> None:
    """Correlation of neighbours within 6 standard errors. False alarms: 2e-9 each."""
    values = ExponentialStream(stream_key("selection")).draw(SIZE) - 1
    assert abs((values[lag:] * values[:-lag]).sum()) < 6 * math.sqrt(SIZE)


@pytest.mark.parametrize("zeros", [10, 20, 30, 40, 50])
def test_the_upper_tail_has_the_law_of_an_exponential(zeros: int) -> None:
    """If a word begins with zeros, E exceeds zeros * ln 2 by an exponential value, beyond 34.

    Kolmogorov-Smirnov over 200,000 values. False alarms: 1e-6 each.
    """
    words = random_words(200_000, zeros=zeros)
    values = exponentials(ChosenWords(words), len(words))
    assert stats.kstest(values - zeros * math.log(2), stats.expon.cdf).pvalue > 1e-6


@pytest.mark.parametrize("ones", [10, 20, 30, 40, 50])
def test_the_lower_tail_has_the_law_of_an_exponential(ones: int) -> None:
    """If a word begins with ones, 1 - exp(-E) is uniform on (0, 2^-ones), below 1e-15.

    Kolmogorov-Smirnov over 200,000 values. False alarms: 1e-6 each.
    """
    words = random_words(200_000, ones=ones)
    values = exponentials(ChosenWords(words), len(words))
    uniform = -numpy.expm1(-values) * 2.0**ones
    assert stats.kstest(uniform, stats.uniform.cdf).pvalue > 1e-6


def test_every_edge_of_the_words_gives_a_finite_value_above_zero() -> None:
    words = edge_words()
    with numpy.errstate(all="raise"):
        values = exponentials(ChosenWords(words), len(words))
    assert values.max() == pytest.approx(65 * math.log(2), rel=1e-14)
    assert values.min() == pytest.approx(2.0**-65, rel=1e-14)
    assert (numpy.diff(values) <= 0).all()


def test_values_are_those_of_exact_arithmetic() -> None:
    """Words of every size, from both ends: the relative error is that of float64."""
    words = numpy.concatenate(
        [random_words(200, zeros=bits) for bits in range(1, 60)]
        + [random_words(200, ones=bits) for bits in range(1, 60)]
    )
    values = exponentials(ChosenWords(words), len(words))
    for word, value in zip(words[::50].tolist(), values[::50].tolist(), strict=True):
        exact = exact_exponential(word)
        assert abs(value - exact) <= 6 * 2.0**-52 * exact


def exact_exponential(word: int) -> float:
    """Return -ln U of a word, computed with 60 digits."""
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 60
        return float(-((Decimal(word) + Decimal("0.5")) / Decimal(2**64)).ln())


@pytest.mark.parametrize("size", [0, 1, 7])
def test_draws_go_on_where_the_last_one_ended(size: int) -> None:
    key = stream_key("selection")
    stream = ExponentialStream(key)
    parts = [stream.draw(size), stream.draw(5)]
    whole = ExponentialStream(key).draw(size + 5)
    assert numpy.array_equal(numpy.concatenate(parts), whole)
