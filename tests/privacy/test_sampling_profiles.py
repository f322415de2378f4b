"""Profiles of sampled noise against sixty digits, and against dp_accounting's own distributions.

Exact deltas are written out from the densities: P's mass above the outcome where it is e^epsilon times Q's, less e^epsilon times
Q's mass there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as library
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.privacy.pld.fft import UNIT
from dppipe.privacy.pld.profiles import directions
from dppipe.privacy.profiles.sampling import Direction

Delta = Callable[[mpmath.mpf], mpmath.mpf]
rates = st.floats(-16, 0).map(lambda log: min(math.exp(log), 0.999))
shares = st.lists(st.floats(0, 1), min_size=3, max_size=3)
G, L = dp_accounting.GaussianDpEvent, dp_accounting.LaplaceDpEvent


def poisson(rate: float, noise: dp_accounting.DpEvent) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(rate, noise)


def is_bounded(
    way: Direction, exact: Delta, where: Sequence[float], *, loosest: float = 1e-9
) -> bool:
    """Whether a profile, read off as `losses.py` does, is at least the exact delta, and hardly more."""
    epsilons = np.array(
        [
            way.lowest,
            way.highest,
            0.0,
            *(way.lowest + (way.highest - way.lowest) * share for share in where),
        ]
    )
    with np.errstate(all="ignore"):
        found = way.profile(epsilons - 16 * UNIT * np.abs(epsilons)) * (1 + 16 * UNIT) + 2.0**-80
    with mpmath.workdps(60):
        wanted = [exact(mpmath.mpf(float(epsilon))) for epsilon in epsilons]
        floor = [max(1 - mpmath.exp(float(epsilon)), mpmath.mpf(0)) for epsilon in epsilons]
        return all(
            one <= max(mpmath.mpf(float(got)), least) and float(got) <= one * (1 + loosest) + 1e-12
            for one, got, least in zip(wanted, found, floor, strict=True)
        )


def swapped_delta(epsilon: mpmath.mpf, *, rate: float, z: float) -> mpmath.mpf:
    """Write delta of (1-q) N(0, z^2) + q N(1, z^2) and (1-q) N(0, z^2) + q N(-1, z^2) out; the outcome is found by halving."""
    grown, q, variance = mpmath.exp(epsilon), mpmath.mpf(rate), mpmath.mpf(z) ** 2

    def ratio(x: mpmath.mpf) -> mpmath.mpf:
        up, down = (mpmath.exp((sign * 2 * x - 1) / (2 * variance)) for sign in (1, -1))
        return (1 - q + q * up) / (1 - q + q * down)

    low, high = mpmath.mpf(-1), mpmath.mpf(1)
    while ratio(low) > grown:
        low *= 2
    while ratio(high) < grown:
        high *= 2
    for _ in range(150):
        middle = (low + high) / 2
        low, high = (middle, high) if ratio(middle) < grown else (low, middle)
    none, up, down = (mpmath.ncdf((mean - low) / z) for mean in (0, 1, -1))
    return (1 - q) * none + q * up - grown * ((1 - q) * none + q * down)


def laplace_delta(epsilon: mpmath.mpf, *, rate: float, scale: float, removing: bool) -> mpmath.mpf:
    """Write delta of (1-q) Lap(0, b) + q Lap(1, b) and Lap(0, b), or of its reverse, out."""
    grown, q, b = mpmath.exp(epsilon), mpmath.mpf(rate), mpmath.mpf(scale)
    inner = ((grown if removing else 1 / grown) - 1 + q) / q  # what Lap(1)'s density is of Lap(0)'s
    if inner <= mpmath.exp(-1 / b):
        return 1 - grown if removing else mpmath.mpf(0)
    if inner >= mpmath.exp(1 / b):
        return mpmath.mpf(0) if removing else 1 - grown
    edge = (1 + b * mpmath.log(inner)) / 2
    above = mpmath.exp(-edge / b) / 2
    drawn = (1 - q) * above + q * (1 - mpmath.exp((edge - 1) / b) / 2)
    return drawn - grown * above if removing else (1 - above) - grown * (1 - drawn)


@settings(max_examples=25, deadline=None)
@given(rates, st.floats(-2, 4).map(math.exp), shares)
def test_swapping_a_sampled_record_is_bounded_from_above_and_closely(
    rate: float, z: float, where: list[float]
) -> None:
    (way,) = directions(poisson(rate, G(z)), relation="replace_one")
    assert is_bounded(way, lambda epsilon: swapped_delta(epsilon, rate=rate, z=z), where)


@settings(max_examples=40, deadline=None)
@given(st.one_of(rates, st.just(1.0)), st.floats(-4, 12).map(math.exp), shares)
def test_laplace_noise_is_bounded_from_above_and_closely(
    rate: float, scale: float, where: list[float]
) -> None:
    event = poisson(rate, L(scale)) if rate < 1 else L(scale)
    ways = directions(event, relation="zero_out")
    assert len(ways) == (2 if rate < 1 else 1)
    for way, removing in zip(ways, (True, False), strict=False):
        assert is_bounded(
            way,
            lambda epsilon, up=removing: laplace_delta(
                epsilon, rate=rate, scale=scale, removing=up
            ),
            where,
        )


@settings(max_examples=10, deadline=None)
@given(st.integers(20, 60), st.floats(0.05, 0.9), st.floats(0.5, 8.0), shares)
def test_batches_that_are_cut_off_cost_what_their_mixture_does(
    records: int, rate: float, z: float, where: list[float]
) -> None:
    """The chances of a cut are added up one by one: that of one where the record is drawn, and that it stays in then."""
    most = max(1, math.ceil(rate * records))
    event = dp_accounting.TruncatedSubsampledGaussianDpEvent(records, rate, most, z)

    def exactly(count: int, n: int) -> mpmath.mpf:
        return (
            mpmath.binomial(n, count)
            * mpmath.mpf(rate) ** count
            * (1 - mpmath.mpf(rate)) ** (n - count)
        )

    with mpmath.workdps(60):
        cut = mpmath.fsum(exactly(count, records - 1) for count in range(most, records))
        kept = (
            mpmath.fsum(exactly(count, records) for count in range(most + 1, records + 1))
            * most
            / records
            / cut
        )
        (way,) = directions(event, relation="replace_one")
        assert is_bounded(
            way,
            lambda epsilon: (
                cut * swapped_delta(epsilon, rate=kept, z=z / 2)
                + (1 - cut) * swapped_delta(epsilon, rate=rate, z=z)
            ),
            where,
            loosest=1e-6,
        )


def library_distribution(event: Any, relation: str) -> Any:
    neighbours = (
        NeighboringRelation.REPLACE_ONE
        if relation == "replace_one"
        else NeighboringRelation.REPLACE_SPECIAL
    )
    settings = {"value_discretization_interval": 0.01}
    if isinstance(event, dp_accounting.TruncatedSubsampledGaussianDpEvent):
        return library.from_truncated_subsampled_gaussian_mechanism(
            event.dataset_size,
            event.sampling_probability,
            event.truncated_batch_size,
            event.noise_multiplier,
            neighboring_relation=neighbours,
            **settings,
        )
    rate, noise = getattr(event, "sampling_probability", 1.0), getattr(event, "event", event)
    if isinstance(noise, L):
        return library.from_laplace_mechanism(
            noise.noise_multiplier, sampling_prob=rate, **settings
        )
    return library.from_gaussian_mechanism(
        noise.noise_multiplier, sampling_prob=rate, neighboring_relation=neighbours, **settings
    )


POISSON = [poisson(rate, G(z)) for rate, z in ((1e-4, 0.5), (0.1, 2.0), (0.9, 9.0))]
CUT_OFF = dp_accounting.TruncatedSubsampledGaussianDpEvent(500, 0.1, 55, 1.5)


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        *(
            (event, relation)
            for event in (*POISSON, CUT_OFF)
            for relation in ("zero_out", "replace_one")
        ),
        (G(0.4), "zero_out"),
        (G(3.0), "replace_one"),
        (L(2.0), "zero_out"),
        (poisson(0.05, L(0.5)), "zero_out"),
    ],
)
def test_every_direction_has_the_profile_that_dp_accounting_gives(
    event: dp_accounting.DpEvent, relation: Any
) -> None:
    theirs = library_distribution(event, relation)
    ours = directions(event, relation=relation)
    given_ways = (
        [theirs._pmf_remove] if theirs._symmetric else [theirs._pmf_remove, theirs._pmf_add]
    )
    for way, other in zip(ours, given_ways, strict=True):
        epsilons = 0.01 * np.arange(-200, 401, 25)  # exact at places of its grid
        with np.errstate(all="ignore"):
            found = way.profile(epsilons)
        assert found == pytest.approx(
            [other.get_delta_for_epsilon(epsilon) for epsilon in epsilons], rel=1e-6, abs=1e-12
        )
