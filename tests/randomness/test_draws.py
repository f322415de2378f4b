"""Choices among records: their exact laws by counting every outcome, and their cost by counting the
bytes they take.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, product

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from secret_streams import secret_stream

from dppipe.randomness.draws import integers, subset, successes

ALARM = 1e-9


class CountingSource:
    """Counts the bytes that are asked of it."""

    def __init__(self) -> None:
        self.count, self.stream = 0, secret_stream("sampler")

    def bytes(self, length: int, /) -> bytes:
        self.count += length
        return self.stream.bytes(length)


def check_law(seen: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> None:
    """Compare how often each outcome was seen with its probability (chi-squared, false alarms
    1e-9).
    """
    assert set(seen) <= set(expected)
    if len(expected) == 1:
        return
    total = seen.total()
    result = stats.chisquare(
        [seen[outcome] for outcome in expected], [total * p for p in expected.values()]
    )
    assert result.pvalue > ALARM


@pytest.mark.parametrize("below", [1, 2, 3, 7, 64, 100])
def test_integers_are_uniform(below: int) -> None:
    """Chi-squared. False alarms: 1e-9."""
    drawn = integers(secret_stream("sampler"), below, size=20_000)
    assert drawn.dtype == numpy.int64
    check_law(
        Counter((int(value),) for value in drawn), {(value,): 1 / below for value in range(below)}
    )


@settings(deadline=None)
@given(st.integers(1, 2**62), st.integers(0, 50))
def test_integers_are_as_many_as_asked_for_and_in_range(below: int, size: int) -> None:
    drawn = integers(secret_stream("sampler"), below, size=size)
    assert drawn.shape == (size,)
    assert ((drawn >= 0) & (drawn < below)).all()


@pytest.mark.parametrize(("records", "size"), [(5, 2), (5, 3), (6, 1), (4, 4), (6, 3)])
def test_every_subset_is_equally_likely(records: int, size: int) -> None:
    """Every outcome counted, chi-squared. False alarms: 1e-9."""
    source = secret_stream("sampler")
    seen = Counter(tuple(subset(source, records, size=size).tolist()) for _ in range(10_000))
    outcomes = list(combinations(range(records), size))
    check_law(seen, {outcome: 1 / len(outcomes) for outcome in outcomes})


@settings(deadline=None)
@given(st.integers(1, 10**9), st.integers(0, 200))
def test_subsets_are_distinct_ascending_and_in_range(records: int, size: int) -> None:
    size = min(size, records)
    drawn = subset(secret_stream("sampler"), records, size=size)
    assert drawn.dtype == numpy.int64
    assert drawn.shape == (size,)
    assert (numpy.diff(drawn) > 0).all()
    assert size == 0 or (drawn[0] >= 0 and drawn[-1] < records)


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.5, 0.9])
def test_each_record_is_chosen_independently(rate: float) -> None:
    """The joint law of five records, every outcome counted, chi-squared. False alarms: 1e-9."""
    source = secret_stream("sampler")
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(10_000):
        chosen = set(successes(source, 5, rate=rate).tolist())
        seen[tuple(int(record in chosen) for record in range(5))] += 1
    check_law(
        seen,
        {o: math.prod(rate if bit else 1 - rate for bit in o) for o in product((0, 1), repeat=5)},
    )


@pytest.mark.parametrize(
    ("records", "rate"), [(10**8, 2.56e-6), (10**5, 0.01), (1000, 0.97), (10**12, 1e-10)]
)
def test_batches_of_large_data_have_binomial_sizes_and_uniform_records(
    records: int, rate: float
) -> None:
    """Mean and variance of the size, Kolmogorov-Smirnov of the places.

    False alarms: below 1e-8 each.
    """
    source, draws = secret_stream("sampler"), 2000
    batches = [successes(source, records, rate=rate) for _ in range(draws)]
    sizes = numpy.array([len(batch) for batch in batches])
    mean, variance = records * rate, records * rate * (1 - rate)
    assert abs(sizes.mean() - mean) < 6.2 * math.sqrt(variance / draws)
    assert abs(sizes.var() / variance - 1) < 7 * math.sqrt((2 + 1 / variance) / draws)
    places = numpy.concatenate(batches) / records
    assert stats.kstest(places, stats.uniform.cdf).statistic * math.sqrt(len(places)) < math.sqrt(
        math.log(2 / ALARM) / 2
    )


@settings(deadline=None)
@given(st.integers(0, 10**6), st.floats(1e-300, 1e-4) | st.just(5e-324))
def test_tiny_rates_give_distinct_ascending_records(records: int, rate: float) -> None:
    drawn = successes(secret_stream("sampler"), records, rate=rate)
    assert drawn.dtype == numpy.int64
    assert (numpy.diff(drawn) > 0).all()
    assert len(drawn) == 0 or (drawn[0] >= 0 and drawn[-1] < records)


def test_a_rate_of_one_chooses_everything() -> None:
    assert successes(secret_stream("sampler"), 5, rate=1).tolist() == [0, 1, 2, 3, 4]
    assert successes(secret_stream("sampler"), 0, rate=0.5).tolist() == []
    almost = successes(secret_stream("sampler"), 10_000, rate=1 - 2.0**-53)
    assert len(almost) == 10_000


def test_a_choice_costs_in_proportion_to_what_is_chosen() -> None:
    """Bytes taken, not seconds: the same batch of a thousand times more records takes no more."""
    for batch in (32, 1024):
        counts = []
        for records in (10**5, 10**8):
            source = CountingSource()
            for _ in range(50):
                successes(source, records, rate=batch / records)
                subset(source, records, size=batch)
            counts.append(source.count)
        assert counts[1] < 1.5 * counts[0]
        assert max(counts) < 50 * 8 * 8 * (batch + 10)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan])
def test_a_rate_that_is_no_probability_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        successes(secret_stream("sampler"), 5, rate=rate)


def test_more_than_there_are_cannot_be_chosen() -> None:
    with pytest.raises(ValueError, match="from 0 to the 3 records"):
        subset(secret_stream("sampler"), 3, size=4)
    with pytest.raises(ValueError, match="upper end"):
        integers(secret_stream("sampler"), 0, size=1)
