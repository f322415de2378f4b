"""Sums of losses on a circle, against the same sums written out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from unittest import mock

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import fft

from dppipe.privacy.events.sequences import cumulative
from dppipe.privacy.pld import convolution as convolutions
from dppipe.privacy.pld.convolution import TAIL, convolved
from dppipe.privacy.pld.curves import loss_curves
from dppipe.privacy.pld.distributions import event_losses
from dppipe.privacy.pld.fft import UNIT, round_off, transform
from dppipe.privacy.pld.grid import LossPmf, Stage
from dppipe.privacy.pld.windows import LEFT_OUT, Windows

OWN = 1 - 1e-12
"""The sums below are rounded too, relative to themselves: all that is added up there is positive."""


def way(weights: Sequence[float], *, lowest: int, infinite: float, total: float) -> LossPmf:
    shares = np.asarray(weights, dtype=np.float64)
    return LossPmf(lowest, shares / shares.sum() * (total - infinite), infinite)


def written_out(stage: Stage) -> tuple[int, NDArray[np.float64]]:
    """Add losses one by one: the least sum, and the probability of each."""
    lowest, sums = 0, np.ones(1)
    for one, count in stage.items():
        for _ in range(count):
            lowest, sums = lowest + one.lowest, np.convolve(sums, one.probabilities)
    return lowest, sums


ways = st.builds(
    way,
    st.lists(st.floats(0, 1).map(lambda x: x**8), min_size=1, max_size=40).filter(
        lambda weights: sum(weights) > 0.01
    ),
    lowest=st.integers(-20, 20),
    infinite=st.sampled_from([0.0, 1e-9, 0.1]),
    total=st.sampled_from([1.0, 1.001]),  # probabilities may have been rounded up
)
stages = st.lists(
    st.dictionaries(ways, st.integers(1, 30), min_size=1, max_size=3), min_size=1, max_size=3
)


@settings(max_examples=60, deadline=None)
@given(stages)
def test_a_window_leaves_next_to_nothing_out(given_stages: list[Stage]) -> None:
    for stage in given_stages:
        first, last = Windows(stage).of(stage)
        _, sums = written_out(stage)
        assert 0 <= first <= last < len(sums)
        assert sums[:first].sum() + sums[last + 1 :].sum() <= LEFT_OUT


@settings(max_examples=60, deadline=None)
@given(stages)
def test_a_sum_is_what_adding_one_by_one_gives(given_stages: list[Stage]) -> None:
    done: dict[LossPmf, int] = {}
    for stage, found in zip(given_stages, convolved(given_stages), strict=True):
        for one, count in stage.items():
            done[one] = done.get(one, 0) + count
        lowest, sums = written_out(done)
        start = found.lowest - lowest
        assert 0 <= start <= len(sums) - len(found.probabilities)
        exact = sums[start : start + len(found.probabilities)]
        assert (found.probabilities >= exact * OWN).all()
        assert found.probabilities == pytest.approx(
            exact, abs=1e-5
        )  # what is off the circle's end is added, after its tilt
        if sum(done.values()) == 1:
            assert found in done  # one loss is its own sum
            continue
        infinite = math.fsum(count * one.infinite for one, count in done.items())
        grown = math.prod(max(1.0, one.mass) ** count for one, count in done.items())
        assert found.infinite == pytest.approx(
            (infinite + TAIL) * grown, rel=1e-12, abs=0
        )  # what a window leaves out, and more


@settings(max_examples=100, deadline=None)
@given(
    stages, st.sampled_from(["smaller", "place", "frequency", "anywhere"]), st.integers(0, 2**32)
)
def test_a_sum_is_never_too_small_whatever_round_off_does_within_its_bound(
    given_stages: list[Stage], where: str, seed: int
) -> None:
    """Every number of a transform is made as wrong as its bound allows.

    Forth: towards 0 on both circles, as if weight were missing at one place, at one frequency only, or anywhere. Back: all down.
    """
    rng = np.random.default_rng(seed)

    def phases(values: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return np.asarray(np.exp(1j * np.angle(values)))

    def harmful(
        values: NDArray[np.complex128], exact: NDArray[np.complex128]
    ) -> NDArray[np.complex128]:
        size = len(exact)
        if (values.real < 0).any() or (
            values.imag < 0
        ).any():  # back: its conjugate is what is read off
            return np.full(size, (1 - 1j) / math.sqrt(2))
        if where == "smaller":
            mirrored = np.conj(np.roll(exact[::-1], 1))
            return (phases(exact + mirrored) + 1j * phases(-1j * (exact - mirrored))) / 2
        if where == "place":
            return np.asarray(
                np.exp(-2j * np.pi * np.arange(size) * rng.integers(min(size, 4)) / size)
                * (1 + 1j)
                / math.sqrt(2)
            )
        turned = phases(rng.normal(size=size) + 1j * rng.normal(size=size))
        return (
            turned
            if where == "anywhere"
            else np.where(np.arange(size) == 0, (1 + 1j) / math.sqrt(2), 0)
        )

    def wrong(values: NDArray[np.complex128]) -> NDArray[np.complex128]:
        exact = transform(values)
        return exact - harmful(values, exact) * (
            0.99 * round_off(len(exact)) * np.abs(values).sum()
        )

    with mock.patch.object(convolutions, "transform", wrong):
        *_, found = convolved(given_stages)
    *_, whole = cumulative(given_stages)
    lowest, sums = written_out(whole)
    start = found.lowest - lowest
    assert (found.probabilities >= sums[start : start + len(found.probabilities)] * OWN).all()


def test_a_sum_is_never_too_small_if_products_are_rounded_towards_0() -> None:
    """Transforms are taken to be exact here, so that nothing but the bound on multiplications makes good for them."""
    count, one = 20_000, way([1.0, 1.0], lowest=0, infinite=0.0, total=1.0)
    powers = convolutions._power

    def rounded(values: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
        product = powers(values, times)
        if np.iscomplexobj(product):  # at one frequency, which every place has its share of
            product[:, 0] *= 1 - math.sqrt(5) * UNIT * times
        return product

    def exact(values: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return np.asarray(fft.fft(values.astype(np.clongdouble)), dtype=np.complex128)

    with (
        mock.patch.object(convolutions, "transform", exact),
        mock.patch.object(convolutions, "round_off", return_value=0.0),
        mock.patch.object(convolutions, "_power", rounded),
    ):
        (found,) = convolved([{one: count}])
    with mpmath.workdps(40):
        for place in range(found.lowest, found.lowest + len(found.probabilities), 50):
            assert (
                found.probabilities[place - found.lowest]
                >= mpmath.binomial(count, place) / mpmath.mpf(2) ** count
            )


def test_rare_losses_of_many_steps_cost_next_to_what_they_cost_without_round_off() -> None:
    """Most of a step's losses lie at one place, so that no frequency fades; a bound in the Euclidean norm costs a fifth."""
    event = dp_accounting.PoissonSampledDpEvent(1e-5, dp_accounting.GaussianDpEvent(0.5))
    (found,) = convolved(
        [{event_losses(event, relation="zero_out", interval=1e-4).pmfs[0]: 100_000}]
    )
    assert 0.2042 < found.epsilon(1e-5, interval=1e-4) < 0.2044  # 0.2043 by SciPy's transform
    assert 1.4930 < found.epsilon(1e-8, interval=1e-4) < 1.4950  # 1.4934


def test_removing_and_adding_a_record_are_composed_each_from_its_own_losses() -> None:
    event, other = (
        dp_accounting.PoissonSampledDpEvent(0.3, dp_accounting.GaussianDpEvent(z))
        for z in (1.0, 2.0)
    )
    (curve,) = loss_curves([{event: 3, other: 2}], relation="zero_out", distinct=None, finest=1e-2)
    assert curve.losses is not None
    made = [
        event_losses(each, relation="zero_out", interval=curve.interval) for each in (event, other)
    ]
    for at, found in enumerate(curve.losses.pmfs):
        (expected,) = convolved([{made[0].pmfs[at]: 3, made[1].pmfs[at]: 2}])
        assert found.lowest == expected.lowest
        assert (found.probabilities == expected.probabilities).all()
    deltas = [found.delta(0.5, interval=curve.interval) for found in curve.losses.pmfs]
    assert min(deltas) < 0.9 * max(deltas) == 0.9 * curve.delta(0.5)


@settings(max_examples=60, deadline=None)
@given(stages, st.floats(-3, 6))
def test_no_delta_is_below_that_of_the_sum_written_out(
    given_stages: list[Stage], epsilon: float
) -> None:
    whole: dict[LossPmf, int] = {}
    for stage in given_stages:
        for one, count in stage.items():
            whole[one] = whole.get(one, 0) + count
    *_, found = convolved(given_stages)
    lowest, sums = written_out(whole)
    losses = (lowest + np.arange(len(sums))) * 0.01
    infinite = 1 - math.prod((1 - one.infinite) ** count for one, count in whole.items())
    exact = infinite + float(
        np.sum(np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0) * sums)
    )
    assert found.delta(epsilon, interval=0.01) >= exact * OWN
