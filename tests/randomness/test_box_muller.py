"""The transform from bits to normal values: exact in the tail, finite for every bit pattern,
uniform in angle.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray
from scipy import stats

from dppipe.randomness.box_muller import bytes_needed, normals_

Pairs = Callable[[NDArray[numpy.int64], NDArray[Any]], tuple[NDArray[Any], NDArray[Any]]]
"""From words and angles to pairs of normal values."""

KS_LIMIT = math.sqrt(math.log(2e9) / 2)
"""A Kolmogorov-Smirnov distance times sqrt(n) is above this once in a billion times (2 exp(-2 x^2)
= 1e-9).
"""


def transform(dtype: type[Any]) -> Pairs:
    def pairs(
        words: NDArray[numpy.int64], angles: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        bits = numpy.concatenate([words.view(numpy.uint8), angles.view(numpy.uint8)])
        out = numpy.empty(2 * len(words), dtype)
        assert len(bits) == bytes_needed(len(out), out.dtype)
        normals_(out, bits, numpy.empty((2, len(words)), dtype), scale=1.0)
        return out[: len(words)], out[len(words) :]

    return pairs


def from_a_float32_uniform(
    words: NDArray[numpy.int64], angles: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The usual mistake: the uniform is rounded to 24 bits on (0, 1] before its logarithm."""
    uniform = (
        (words.view(numpy.uint64) >> numpy.uint64(40)).astype(numpy.float32) + 1
    ) * numpy.float32(2.0**-24)
    radius = numpy.sqrt(-2 * numpy.log(uniform))
    turned = angles.astype(numpy.float32) * numpy.float32(math.pi * 2.0**-31)
    return radius * numpy.cos(turned), radius * numpy.sin(turned)


def random_angles(dtype: type[Any], count: int) -> NDArray[Any]:
    integer = numpy.int32 if dtype is numpy.float32 else numpy.int64
    return numpy.frombuffer(os.urandom(count * numpy.dtype(integer).itemsize), integer).copy()


def excess_distance(pairs: Pairs, dtype: type[Any], *, zeros: int, count: int = 200_000) -> float:
    """Return the scaled distance of the tail's law from the exact one, if words begin with zeros.

    Then U is uniform on (0, 2^-zeros), so R^2 / 2 exceeds zeros * ln 2 by an exponential variable.
    """
    words = numpy.frombuffer(os.urandom(8 * count), numpy.uint64) >> numpy.uint64(zeros + 1)
    first, second = pairs(words.astype(numpy.int64), random_angles(dtype, count))
    excess = (first.astype(float) ** 2 + second.astype(float) ** 2) / 2 - zeros * math.log(2)
    return float(stats.kstest(excess, stats.expon.cdf).statistic) * math.sqrt(count)


@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float64])
@pytest.mark.parametrize("zeros", [0, 10, 20, 30, 40])
def test_the_tail_has_the_law_of_a_normal_radius(dtype: type[Any], zeros: int) -> None:
    """From 0 to beyond 7.4 standard deviations. False alarms: 1e-9 each."""
    assert excess_distance(transform(dtype), dtype, zeros=zeros) < KS_LIMIT


@pytest.mark.parametrize("zeros", [20, 30])
def test_a_float32_uniform_fails_the_tail_test(zeros: int) -> None:
    """The test above has power: it finds the mistake that it is there for."""
    assert excess_distance(from_a_float32_uniform, numpy.float32, zeros=zeros) > 10 * KS_LIMIT


def test_a_float32_uniform_does_not_reach_far_enough() -> None:
    words = numpy.zeros(1, numpy.int64)
    assert abs(from_a_float32_uniform(words, numpy.zeros(1, numpy.int32))[0][0]) < 5.8
    assert abs(transform(numpy.float32)(words, numpy.zeros(1, numpy.int32))[0][0]) > 8.5


def edges(bits: int) -> list[int]:
    powers = [2**k + offset for k in range(bits) for offset in (-1, 0, 1)]
    return sorted(
        {
            value
            for power in powers
            for value in (power, -power)
            if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
        }
    )


@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float64])
def test_every_edge_of_the_bits_gives_finite_values_up_to_9_standard_deviations(
    dtype: type[Any],
) -> None:
    integer = numpy.int32 if dtype is numpy.float32 else numpy.int64
    words, angles = edges(64), edges(32 if dtype is numpy.float32 else 64)
    grid = numpy.array([(word, angle) for word in words for angle in angles], dtype=numpy.int64)
    with numpy.errstate(all="raise"):
        first, second = transform(dtype)(grid[:, 0].copy(), grid[:, 1].astype(integer))
    for values in (first, second):
        assert numpy.isfinite(values).all()
        assert 9.4 < numpy.abs(values).max() < 9.5
        assert values.max() > 9.4
        assert values.min() < -9.4


@pytest.mark.parametrize(("dtype", "tolerance"), [(numpy.float32, 1e-6), (numpy.float64, 1e-14)])
def test_values_are_those_of_exact_arithmetic(dtype: type[Any], tolerance: float) -> None:
    words = (
        numpy.frombuffer(os.urandom(8 * 5000), numpy.int64) >> numpy.arange(5000) % 60
    )  # of every size
    angles = random_angles(dtype, 5000)
    first, second = transform(dtype)(words, angles)
    exact = numpy.sqrt(
        -2
        * (
            numpy.log(numpy.abs(words.astype(numpy.longdouble)) + 0.5)
            - 63 * numpy.log(numpy.longdouble(2))
        )
    )
    turned = (
        angles.astype(numpy.longdouble)
        * numpy.pi
        * numpy.longdouble(2.0) ** (-31 if dtype is numpy.float32 else -63)
    )
    assert numpy.abs(first - exact * numpy.cos(turned)).max() < 10 * tolerance
    assert numpy.abs(second - exact * numpy.sin(turned)).max() < 10 * tolerance


@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float64])
def test_angles_are_uniform(dtype: type[Any]) -> None:
    """False alarms: 1e-9."""
    count = 200_000
    words = numpy.frombuffer(os.urandom(8 * count), numpy.int64)
    first, second = transform(dtype)(words, random_angles(dtype, count))
    turns = numpy.arctan2(second.astype(float), first.astype(float)) / (2 * math.pi) + 0.5
    assert stats.kstest(turns, stats.uniform.cdf).statistic * math.sqrt(count) < KS_LIMIT


@pytest.mark.slow
def test_every_float32_radius_is_finite_and_in_order() -> None:
    """All 2^23 numbers of each power of two that a word can round to."""
    mantissas = numpy.arange(1 << 23, dtype=numpy.int64) + (1 << 23)
    last = math.inf
    for shift in range(40):
        words = mantissas << shift
        words[words == -(2**63)] = 2**63 - 1
        first, _ = transform(numpy.float32)(words, numpy.zeros(len(words), numpy.int32))
        assert numpy.isfinite(first).all()
        assert (
            numpy.diff(first) <= 1e-6
        ).all()  # a logarithm of the last digit may be off by one unit
        assert first[0] <= last
        last = first[-1]
