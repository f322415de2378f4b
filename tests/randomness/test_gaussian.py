"""The stream of Gaussian noise: its distribution, its independence, its precision, and that it
keeps its key.
"""

from __future__ import annotations

import copy
import math
import os
import pickle
from itertools import pairwise

import numpy
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from dppipe.errors import PrivacyRefusal
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.statement.noise_levels import DEFAULT_LEVEL, SECURE_LEVEL

SIGMAS = 6.2
"""A normal variable is further out than this 6e-10 times."""
BLOCK = 1 << 17


def noise(
    count: int,
    *,
    key: bytes | None = None,
    secure: bool = False,
    dtype: torch.dtype = torch.float32,
) -> NDArray[numpy.float64]:
    stream = GaussianStream(key or os.urandom(32), secure=secure)
    return stream.add_(torch.zeros(count, dtype=dtype), std=1.0).double().numpy()


def correlation(a: NDArray[numpy.float64], b: NDArray[numpy.float64]) -> float:
    """Return the correlation of two samples, times sqrt(n).

    It is standard normal where they are independent.
    """
    count = min(len(a), len(b))
    a, b = a[:count], b[:count]
    return float(((a - a.mean()) * (b - b.mean())).sum() / (a.std() * b.std() * math.sqrt(count)))


@pytest.fixture(scope="module")
def sample() -> NDArray[numpy.float64]:
    return noise(1 << 22)


MODES = [
    (False, torch.float32, 1 << 24),
    (False, torch.float64, 1 << 22),
    (True, torch.float32, 1 << 20),
]


@pytest.mark.parametrize(("secure", "dtype", "count"), MODES)
def test_the_first_four_moments_are_those_of_a_normal(
    secure: bool, dtype: torch.dtype, count: int
) -> None:
    """False alarms: 6e-10 each for normal errors; the fourth power's tail is a little heavier,
    below 1e-7.
    """
    values = noise(count, secure=secure, dtype=dtype)
    for power, (mean, variance) in {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96)}.items():
        assert abs((values**power).mean() - mean) < SIGMAS * math.sqrt(variance / count), power


@pytest.mark.parametrize(("secure", "dtype", "count"), MODES)
def test_values_have_the_normal_distribution(secure: bool, dtype: torch.dtype, count: int) -> None:
    """Kolmogorov-Smirnov. False alarms: 1e-9 each."""
    values = noise(min(count, 1 << 20), secure=secure, dtype=dtype)
    distance = stats.kstest(values, stats.norm.cdf).statistic * math.sqrt(len(values))
    assert distance < math.sqrt(math.log(2e9) / 2)


def check_tails(draw_count: int, thresholds: list[float]) -> None:
    stream, counts, flat = (
        GaussianStream(os.urandom(32)),
        numpy.zeros(len(thresholds), int),
        torch.zeros(1 << 18),
    )
    for _ in range(draw_count >> 18):
        size = stream.add_(flat.zero_(), std=1.0).abs_().numpy()
        large = size[size > thresholds[0]]
        counts += (large[:, None] > numpy.array(thresholds, numpy.float32)).sum(0)
    for threshold, count in zip(thresholds, counts, strict=True):
        expected = stats.poisson(draw_count * 2 * stats.norm.sf(threshold))
        assert expected.cdf(count) > 1e-9, (threshold, count)
        assert expected.sf(count - 1) > 1e-9, (threshold, count)


def test_tails_hold_as_many_values_as_they_should() -> None:
    """Counts beyond 3 to 5.5 standard deviations against the Poisson law.

    False alarms: 2e-9 each.
    """
    check_tails(1 << 26, [3.0, 4.0, 4.5, 5.0, 5.5])


@pytest.mark.slow
def test_values_lie_beyond_what_a_float32_uniform_can_reach() -> None:
    """Of 2^32 values 34 are expected beyond 5.77, where a 24-bit uniform has none.

    False alarms: 2e-9 each.
    """
    check_tails(1 << 32, [5.0, 5.5, 5.77, 6.0])


@pytest.mark.parametrize("lag", [1, 2, 3, 64, BLOCK // 2 - 1, BLOCK // 2, BLOCK // 2 + 1, BLOCK])
def test_parameters_get_independent_noise(sample: NDArray[numpy.float64], lag: int) -> None:
    """Values and squares, also where two values share a radius (half a block apart).

    False alarms: 6e-10 each.
    """
    assert abs(correlation(sample[lag:], sample[:-lag])) < SIGMAS
    assert abs(correlation(sample[lag:] ** 2, sample[:-lag] ** 2)) < SIGMAS


def test_steps_get_independent_noise() -> None:
    """Eight releases of one stream. False alarms: 6e-10 for each of 14 comparisons."""
    stream = GaussianStream(os.urandom(32))
    steps = [stream.add_(torch.zeros(100_001), std=1.0).double().numpy() for _ in range(8)]
    for one, next_one in pairwise(steps):
        assert abs(correlation(one, next_one)) < SIGMAS
        assert abs(correlation(one**2, next_one**2)) < SIGMAS


def test_runs_get_independent_noise(sample: NDArray[numpy.float64]) -> None:
    """False alarms: 6e-10 each."""
    other = noise(len(sample))
    assert abs(correlation(sample, other)) < SIGMAS
    assert abs(correlation(sample**2, other**2)) < SIGMAS


@pytest.mark.parametrize("size", [1, 2, 3])
def test_each_value_of_a_small_buffer_is_normal(size: int) -> None:
    """Mean, variance and correlation by position over many releases.

    False alarms: 6e-10 for each of 9 comparisons.
    """
    stream, count = GaussianStream(os.urandom(32)), 10_000
    rows = (
        torch.stack([stream.add_(torch.zeros(size), std=1.0) for _ in range(count)])
        .double()
        .numpy()
    )
    assert (numpy.abs(rows.mean(0)) < SIGMAS / math.sqrt(count)).all()
    assert (numpy.abs((rows**2).mean(0) - 1) < 1.2 * SIGMAS * math.sqrt(2 / count)).all()
    for one, other in pairwise(rows.T):
        assert abs(correlation(one, other)) < SIGMAS


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0, 1, 2, 3, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_every_size_is_filled_to_the_end(size: int, dtype: torch.dtype, secure: bool) -> None:
    """Two float32 values are both exactly zero with probability 2^-25.

    False alarms: below 1e-7 in any size.
    """
    flat = torch.zeros(size, dtype=dtype)
    assert GaussianStream(os.urandom(32), secure=secure).add_(flat, std=1.0) is flat
    assert flat.isfinite().all()
    assert (flat[-3:] != 0).all()
    assert (flat == 0).sum() <= (4 if size > 3 else 0)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("std", [1e-25, 1e-3, 0.7, 1.0, 3.0, 1e25])
def test_noise_is_scaled_by_the_standard_deviation(std: float, secure: bool) -> None:
    key, count = bytes(range(32)), 1000
    plain, scaled = (
        GaussianStream(key, secure=secure).add_(torch.zeros(count), std=value).double().numpy()
        for value in (1.0, std)
    )
    assert numpy.allclose(scaled / std, plain, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("std", [0.1, 1 / 3, 1e-7, 12345.678])
def test_rounding_never_lowers_the_standard_deviation(
    std: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def draw(
        self: object, keystream: object, count: int, *, scale: float
    ) -> NDArray[numpy.float32]:
        seen.append(float(scale))
        return numpy.zeros(count, numpy.float32)

    monkeypatch.setattr("dppipe.randomness.box_muller.NormalDraws.draw", draw)
    GaussianStream(bytes(32)).add_(torch.zeros(4), std=std)
    assert std <= seen[0] <= std * (1 + 2.0**-22)


def test_noise_is_added_to_what_stands_in_the_buffer() -> None:
    sums = torch.linspace(-5, 5, 1001)
    drawn = GaussianStream(bytes(32)).add_(torch.zeros(1001), std=0.5)
    assert torch.equal(GaussianStream(bytes(32)).add_(sums.clone(), std=0.5), sums + drawn)


@pytest.mark.parametrize("secure", [False, True])
def test_noisy_sums_are_divided_last(secure: bool) -> None:
    sums = torch.linspace(-5, 5, BLOCK + 3)
    noisy, divided = (
        GaussianStream(bytes(32), secure=secure).add_(sums.clone(), std=0.5, over=over)
        for over in (1, 48.5)
    )
    assert torch.equal(divided, noisy / 48.5)


def test_a_part_of_a_larger_buffer_is_filled_in_place() -> None:
    whole = torch.zeros(300)
    GaussianStream(os.urandom(32)).add_(whole[100:200], std=1.0)
    assert (whole[100:200] != 0).all()
    assert not whole[:100].any()
    assert not whole[200:].any()


@pytest.mark.parametrize("secure", [False, True])
def test_the_same_key_and_sizes_give_the_same_noise_on_any_number_of_threads(secure: bool) -> None:
    def draw(threads: int) -> list[torch.Tensor]:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            stream = GaussianStream(bytes(32), secure=secure)
            return [stream.add_(torch.zeros(size), std=2.0) for size in (5, BLOCK + 7, 1)]
        finally:
            torch.set_num_threads(before)

    for one, other in zip(draw(1), draw(2), strict=True):
        assert torch.equal(one, other)


def test_other_devices_are_reached_without_reading_from_them() -> None:
    for secure in (False, True):
        flat = torch.zeros(BLOCK + 1, device="meta")
        assert GaussianStream(bytes(32), secure=secure).add_(flat, std=1.0) is flat


@pytest.mark.parametrize("std", [0.0, -1.0, math.nan, math.inf, 1e-40, 1e40])
def test_a_standard_deviation_without_noise_or_end_is_refused(std: float) -> None:
    with pytest.raises(ValueError, match="standard deviation"):
        GaussianStream(bytes(32)).add_(torch.zeros(3), std=std)


@pytest.mark.parametrize(
    "flat",
    [torch.zeros(2, 2), torch.zeros(3, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.int64)],
)
def test_a_buffer_of_another_kind_is_refused(flat: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="1-D tensor of float32 or float64"):
        GaussianStream(bytes(32)).add_(flat, std=1.0)


class TestSecure:
    def test_releases_lie_on_the_grid_whatever_the_sums(self) -> None:
        sums = torch.randn(10_000, dtype=torch.float64)
        released = GaussianStream(os.urandom(32), secure=True).add_(sums.clone(), std=0.75)
        on_grid = released / 2.0**-37
        assert torch.equal(on_grid, on_grid.round())
        assert (released - sums).std() == pytest.approx(0.75, rel=0.1)

    def test_digits_below_the_grid_change_nothing(self) -> None:
        key, sums = os.urandom(32), torch.randint(-100, 100, (10_000,)).double()
        moved = sums + 2.0**-39 * torch.rand(10_000, dtype=torch.float64)
        released = [
            GaussianStream(key, secure=True).add_(values, std=1.0) for values in (sums, moved)
        ]
        assert torch.equal(*released)

    def test_the_default_stream_lets_them_through(self) -> None:
        key, sums = os.urandom(32), torch.randint(-100, 100, (10_000,)).double()
        moved = sums + 2.0**-39 * torch.rand(10_000, dtype=torch.float64)
        released = [GaussianStream(key).add_(values, std=1.0) for values in (sums, moved)]
        assert not torch.equal(*released)

    def test_noise_is_raised_by_what_rounding_adds_to_the_sensitivity(self) -> None:
        std, size = 1.0, 1 << 20
        few, many = (
            GaussianStream(bytes(32), secure=True).add_(torch.zeros(n).double(), std=std)
            for n in (BLOCK, size)
        )
        ratio = (many[:BLOCK] / few).median()
        assert ratio == pytest.approx(
            (1 + 2.0**-26 * math.sqrt(size)) / (1 + 2.0**-26 * math.sqrt(BLOCK)), rel=1e-8
        )
        grid, most = 2.0**-36, 2.0**10
        assert std * (1 + 2.0**-26 * math.sqrt(size)) >= most * (
            std / most + grid * math.sqrt(size)
        )

    def test_each_level_says_what_it_means(self) -> None:
        assert "Nothing is claimed" in DEFAULT_LEVEL
        assert "grid" in SECURE_LEVEL


class TestSecrecy:
    KEY = bytes(range(100, 132))

    @pytest.mark.parametrize("take", [pickle.dumps, copy.deepcopy])
    def test_a_stream_cannot_be_copied(self, take: object) -> None:
        stream = GaussianStream(self.KEY)
        with pytest.raises(TypeError, match="can't be copied or pickled"):
            take(stream)  # type: ignore[operator]

    def test_a_key_is_shown_nowhere(self) -> None:
        stream = GaussianStream(self.KEY, secure=True)
        stream.add_(torch.zeros(10), std=1.0)
        shown = repr(stream) + str(stream) + repr(vars(stream)) + repr(vars(stream._keystream))
        assert "secret" in repr(stream)
        assert not any(
            form in shown
            for form in (repr(self.KEY)[2:-1], self.KEY.hex(), str(list(self.KEY))[1:-1])
        )

    def test_a_wrong_key_is_not_shown(self) -> None:
        with pytest.raises(ValueError, match="32 bytes, got 31 bytes") as error:
            GaussianStream(self.KEY[:31])
        assert repr(self.KEY[:31])[2:-1] not in str(error.value)

    def test_a_fork_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = GaussianStream(self.KEY)
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(PrivacyRefusal, match="fork"):
            stream.add_(torch.zeros(3), std=1.0)
