"""Private medians: the law of the cells against enumeration, and what one changed value does."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy
import pytest
from scipy import stats

from dppipe.errors import PrivacyRefusal
from dppipe.randomness.median import CELLS, MedianStream, cells_of, median_cell, select_medians

KEY = bytes(range(32))


def law(values: tuple[int, ...], count: int, epsilon: float) -> numpy.ndarray:
    """Return the probability of each cell, cell by cell from the definition."""
    weights = []
    for cell in range(count):
        below = sum(value < cell for value in values)
        above = sum(value > cell for value in values)
        weights.append(math.exp(-epsilon * max(below, above) / 2))
    return numpy.array(weights) / sum(weights)


@pytest.mark.parametrize(
    ("values", "count", "epsilon"),
    [
        ((2, 2, 5), 8, 1.0),
        ((0, 7, 7, 7), 8, 2.0),
        ((3,), 4, 0.5),
        ((0, 0), 3, 3.0),
        ((1, 4, 6, 6, 2), 11, 0.1),
        ((0,), 1, 1.0),
    ],
)
def test_cells_are_drawn_by_the_exponential_mechanism(
    values: tuple[int, ...], count: int, epsilon: float
) -> None:
    """Chi-squared over 6,000 draws of a fixed key; false alarms of another key: 1e-6 each."""
    stream = MedianStream(KEY)
    cells = numpy.array(values)
    drawn = [median_cell(cells, count=count, epsilon=epsilon, stream=stream) for _ in range(6_000)]
    seen = numpy.bincount(drawn, minlength=count)
    assert len(seen) == count
    if count > 1:
        assert stats.chisquare(seen, law(values, count, epsilon) * len(drawn)).pvalue > 1e-6


@pytest.mark.parametrize("size", [1, 2, 3])
def test_one_changed_value_costs_at_most_epsilon_and_some_change_comes_near(size: int) -> None:
    count, epsilon = 5, 0.7
    worst = widest = 0.0
    for rest in itertools.combinations_with_replacement(range(count), size - 1):
        for one, other in itertools.permutations(range(count), 2):
            losses = numpy.log(law((one, *rest), count, epsilon))
            losses -= numpy.log(law((other, *rest), count, epsilon))
            worst = max(worst, float(numpy.abs(losses).max()))
            widest = max(widest, float(losses.max() - losses.min()))
    assert worst <= epsilon
    assert widest <= epsilon * (1 + 1e-12)
    assert widest > 0.99 * epsilon


def test_the_groups_of_cells_are_those_of_the_table_of_scores() -> None:
    from dppipe.randomness.median import _groups

    generator = numpy.random.default_rng(1)
    for _ in range(200):
        count = int(generator.integers(1, 12))
        values = numpy.sort(generator.integers(0, count, size=int(generator.integers(1, 9))))
        starts, sizes, scores = _groups(values, count)
        found = {}
        for start, size, score in zip(starts, sizes, scores, strict=True):
            for cell in range(start, start + size):
                assert cell not in found
                found[cell] = -max(int((values < cell).sum()), int((values > cell).sum()))
                assert found[cell] == score
        assert sorted(found) == list(range(count))


def test_many_values_and_large_epsilons_find_the_median() -> None:
    values = numpy.random.default_rng(0).normal(0.25, 0.01, size=(2001, 3))
    found = select_medians(values, radius=1.0, epsilon=1.0, stream=MedianStream(KEY))
    # Ranks off by 100 have a probability of exp(-50).
    assert numpy.abs(found - 0.25).max() < 0.01
    sure = select_medians(values, radius=1.0, epsilon=1e6, stream=MedianStream(KEY))
    assert sure == pytest.approx(numpy.median(values, axis=0), abs=2 / CELLS)


def test_values_beyond_the_radius_count_at_its_ends_and_no_median_leaves_it() -> None:
    ends = cells_of(numpy.array([-1e300, -2.0, 2.0, 1e300, 0.0, -0.0]), radius=2.0)
    assert ends.tolist() == [0, 0, CELLS - 1, CELLS - 1, CELLS // 2, CELLS // 2]
    for value in (-1e300, 1e300):
        found = select_medians(
            numpy.full((400, 2), value), radius=2.0, epsilon=1.0, stream=MedianStream(KEY)
        )
        assert numpy.abs(found).max() < 2.0
        assert found == pytest.approx(numpy.sign(value) * 2.0, abs=1e-5)


def test_cells_keep_the_order_of_values() -> None:
    values = numpy.sort(numpy.random.default_rng(2).uniform(-3, 3, size=500))
    assert (numpy.diff(cells_of(values, radius=2.5)) >= 0).all()


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, 1e-12])
def test_an_epsilon_that_rounding_would_hide_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon of at least"):
        median_cell(numpy.array([1]), count=4, epsilon=epsilon, stream=MedianStream(KEY))


@pytest.mark.parametrize("values", [[[math.nan]], [[math.inf]], [1.0], numpy.zeros((0, 2))])
def test_a_table_that_is_not_finite_is_refused_without_its_values(values: object) -> None:
    with pytest.raises(PrivacyRefusal, match="table of finite values, got another thing"):
        select_medians(numpy.array(values), radius=1.0, epsilon=1.0, stream=MedianStream(KEY))


def test_a_stream_shows_no_secret_and_is_not_repeated() -> None:
    stream = MedianStream(KEY)
    assert repr(stream) == "MedianStream(secret)"
    assert not numpy.array_equal(stream.gumbels(4), stream.gumbels(4))


def test_no_value_is_warned_of() -> None:
    values = numpy.array([1e308, -1e308, 5e-324, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cells_of(values, radius=1e-9)
    assert found.tolist() == [CELLS - 1, 0, CELLS // 2, CELLS // 2]
