"""Histograms of private records: bounded for every record, quartiles that are right under noise, and safe after any noise."""

from __future__ import annotations

import math

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dppipe.data.reading.bounded_statistics import Histograms
from dppipe.data.reading.private_scaling import PrivateScaling

SCALING = PrivateScaling(
    noise_multiplier=1.0, lower=(-2.0, 0.0, 5.0), upper=(2.0, 1.0, 9.0), bins=8
)
RECORDS = arrays(numpy.float32, (4, 3, 2), elements=st.floats(width=32))
RECORD = arrays(numpy.float32, (1, 3, 2), elements=st.floats(width=32))


def total(inputs: numpy.ndarray) -> numpy.ndarray:
    with numpy.errstate(all="ignore"):
        return SCALING.total(inputs, None)


@settings(deadline=None, max_examples=200)
@given(inputs=RECORDS, other=RECORD)
def test_one_record_more_or_less_or_another_moves_the_sum_by_no_more_than_is_counted(
    inputs: numpy.ndarray, other: numpy.ndarray
) -> None:
    base, bound = total(inputs), SCALING.sensitivity(3) * (1 + 1e-12)
    assert bound == pytest.approx(math.sqrt(3))
    assert numpy.linalg.norm(total(numpy.concatenate([inputs, other])) - base) <= bound
    assert numpy.linalg.norm(total(inputs[1:]) - base) <= bound
    assert (
        numpy.linalg.norm(total(numpy.concatenate([other, inputs[1:]])) - base)
        <= math.sqrt(2) * bound
    )


@settings(deadline=None, max_examples=200)
@given(record=arrays(numpy.float32, (1, 3), elements=st.floats(width=32)))
def test_each_value_is_in_one_bin_of_its_own_channel(record: numpy.ndarray) -> None:
    blocks = total(record).reshape(3, 8)
    assert (numpy.sort(blocks, axis=1) == [0, 0, 0, 0, 0, 0, 0, 1]).all()


def test_values_at_and_beyond_the_limits_are_in_the_end_bins() -> None:
    high = numpy.array([[2.0, 1.0, 9.0], [1e30, numpy.inf, 9.5]], dtype=numpy.float32)
    low = numpy.array([[-2.0, 0.0, 5.0], [-1e30, -numpy.inf, 4.0]], dtype=numpy.float32)
    assert total(high).reshape(3, 8)[:, -1].tolist() == [2, 2, 2]
    assert total(low).reshape(3, 8)[:, 0].tolist() == [2, 2, 2]


def test_a_user_counts_once_however_many_records_there_are() -> None:
    inputs = numpy.array([[-2.0, 0.0, 5.0]] * 9 + [[2.0, 1.0, 9.0]], dtype=numpy.float32)
    blocks = SCALING.total(inputs, numpy.array([0] * 9 + [1])).reshape(3, 8)
    assert blocks == pytest.approx(numpy.tile([1, 0, 0, 0, 0, 0, 0, 1], (3, 1)))


def test_a_normal_column_gets_deviation_one() -> None:
    inputs = numpy.random.default_rng(0).normal(3.0, 2.0, size=(50_000, 1)).astype(numpy.float32)
    scaling = PrivateScaling(noise_multiplier=1.0, lower=(-10.0,), upper=(15.0,), bins=256)
    constants = scaling.constants(scaling.total(inputs, None), count=50_000)
    assert constants.mean == pytest.approx([3.0], abs=0.05)
    assert constants.std == pytest.approx([2.0], abs=0.05)


def test_quartiles_of_skewed_values_are_found_under_noise() -> None:
    """20,000 exponential values in each of 4 columns up to 20, in 100 bins of 0.2, with noise of deviation 5 * 2 on each count.

    At the k-th of 100 edges the noise on the share below it has deviation 10 sqrt(k (100 - k) / 100) / 20000: 0.001 at the
    median (edge 4), 0.0013 at the upper quartile (edge 7); that of drawing the records is 0.0035. The density there is 1/2 and
    1/4, so both stay within 0.0075 and 0.013 by deviation, and interpolation in a bin is off by 0.005 at most. Median within
    0.06 and quartile range within 0.1 are more than 6 deviations: false alarms below 1e-7.
    """
    rng = numpy.random.default_rng()
    inputs = rng.exponential(size=(20_000, 4)).astype(numpy.float32)
    scaling = PrivateScaling(noise_multiplier=5.0, upper=(20.0,), bins=100)
    noisy = scaling.total(inputs, None) + rng.normal(scale=5.0 * scaling.sensitivity(4), size=400)
    constants = scaling.constants(noisy, count=20_000)
    assert constants.mean == pytest.approx([math.log(2)] * 4, abs=0.06)
    assert numpy.array(constants.std) * 1.349 == pytest.approx(numpy.full(4, math.log(3)), abs=0.1)


@settings(deadline=None)
@given(noisy=arrays(numpy.float64, 24, elements=st.floats(-1e9, 1e9)), count=st.integers(1, 10**6))
def test_whatever_the_noise_the_constants_can_be_scaled_by(
    noisy: numpy.ndarray, count: int
) -> None:
    constants = SCALING.constants(noisy, count=count)
    widths = numpy.array([4.0, 1.0, 4.0])
    assert (numpy.array(constants.std) >= widths / 8 / 1.349 * (1 - 1e-12)).all()
    assert (numpy.array(constants.std) <= widths / 1.349 * (1 + 1e-12)).all()
    assert all(
        low <= mean <= high
        for low, mean, high in zip(SCALING.lower, constants.mean, SCALING.upper, strict=True)
    )


def test_wide_histograms_are_added_up_piece_by_piece() -> None:
    inputs = numpy.random.default_rng(0).uniform(size=(3000, 5)).astype(numpy.float32)
    scaling = PrivateScaling(noise_multiplier=1.0, bins=4096)
    found = scaling.total(inputs, None).reshape(5, 4096)
    assert found.sum(axis=1).tolist() == [3000] * 5
    assert numpy.cumsum(found, axis=1)[:, 2047] == pytest.approx((inputs < 0.5).sum(axis=0))


def test_much_noise_on_empty_bins_does_not_stretch_skewed_values() -> None:
    """Means of 800 medians and quartile ranges, which have deviation below 0.2 each; 0.1 is more than 6 deviations of a mean over
    4 columns: false alarms below 1e-8.

    With noise of deviation 40 on 64 counts of 5,000 values, cutting negative counts off would stretch the range by half.
    """
    rng = numpy.random.default_rng()
    scaling = PrivateScaling(noise_multiplier=20.0, upper=(20.0,), bins=64)
    inputs = numpy.exp(rng.normal(size=(5_000, 4))).astype(numpy.float32)
    exact, std = scaling.total(inputs, None), 20.0 * scaling.sensitivity(4)
    found = [
        scaling.constants(exact + rng.normal(scale=std, size=256), count=5_000) for _ in range(200)
    ]
    without = scaling.constants(exact, count=5_000)
    assert numpy.mean([each.std for each in found]) == pytest.approx(
        numpy.mean(without.std), abs=0.1
    )
    assert numpy.mean([each.mean for each in found]) == pytest.approx(
        numpy.mean(without.mean), abs=0.1
    )


def test_a_histogram_that_is_read_from_its_other_end_gives_the_mirrored_median() -> None:
    noisy = numpy.random.default_rng(0).normal(1 / 16, 0.2, size=(500, 16))
    centre, spread = Histograms(16).centre_and_spread(noisy.ravel())
    mirrored, same = Histograms(16).centre_and_spread(noisy[:, ::-1].ravel())
    assert mirrored == pytest.approx(-centre)
    assert same == pytest.approx(spread)


def test_a_negative_count_is_as_good_as_none() -> None:
    centre, spread = Histograms(4).centre_and_spread(numpy.array([-1.0, 2.0, 0.0, 0.0]))
    assert centre == pytest.approx([-0.25])
    assert spread == pytest.approx([0.5 / 1.349])
