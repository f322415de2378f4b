"""Mixtures of Gaussians against forty digits: delta is bounded from above, and closely."""

from __future__ import annotations

import math
from collections.abc import Sequence

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants import Pld
from dppipe.privacy.pld.distributions import event_losses
from dppipe.privacy.profiles.mixtures import mixture_profiles

Parts = Sequence[tuple[float, float]]
"""Sensitivities and their probabilities."""


def exact_delta(epsilon: mpmath.mpf, noise: float, parts: Parts, *, removing: bool) -> mpmath.mpf:
    """Write delta of the pair out: the outcome where the densities' ratio is e^epsilon is found by halving."""
    grown, total = mpmath.exp(epsilon), mpmath.fsum(share for _, share in parts)
    exact = [(mpmath.mpf(s), mpmath.mpf(share) / total) for s, share in parts]
    wanted = grown if removing else 1 / grown

    def ratio(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.fsum(
            share * mpmath.exp((s * x - s * s / 2) / mpmath.mpf(noise) ** 2) for s, share in exact
        )

    if wanted <= mpmath.fsum(
        share for s, share in exact if s == 0
    ):  # the densities' ratio is everywhere larger
        return max(1 - grown, mpmath.mpf(0)) if removing else mpmath.mpf(0)
    low, high = mpmath.mpf(-1), mpmath.mpf(1)
    while ratio(low) > wanted:
        low *= 2
    while ratio(high) < wanted:
        high *= 2
    for _ in range(110):
        middle = (low + high) / 2
        low, high = (middle, high) if ratio(middle) < wanted else (low, middle)
    side = (
        1 if removing else -1
    )  # of the outcomes that count: from there up, or down; no small number is taken from 1
    without = mpmath.ncdf(-side * low / noise)
    drawn = mpmath.fsum(share * mpmath.ncdf(side * (s - low) / noise) for s, share in exact)
    return drawn - grown * without if removing else without - grown * drawn


def several(most: int, rate: float) -> Parts:
    """Of so many records of a user, each is drawn at a rate."""
    return [(float(k), float(stats.binom.pmf(k, most, rate))) for k in range(most + 1)]


some_parts = st.one_of(
    st.builds(several, st.integers(1, 5), st.floats(-12, -0.1).map(math.exp)),
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.1, 0.7, 1.0, 3.0]), st.floats(-20, 0).map(math.exp)),
        min_size=1,
        max_size=5,
    )
    .filter(lambda parts: any(s > 0 for s, _ in parts))
    .map(lambda parts: [(s, share / sum(share for _, share in parts)) for s, share in parts]),
)


@settings(max_examples=25, deadline=None)
@given(
    some_parts, st.floats(-1.5, 3).map(math.exp), st.lists(st.floats(0, 1), min_size=3, max_size=3)
)
def test_delta_is_never_below_the_exact_value_and_next_to_it(
    parts: Parts, noise: float, where: list[float]
) -> None:
    with np.errstate(all="ignore"):
        ways = mixture_profiles(noise, [s for s, _ in parts], [share for _, share in parts])
        for way, removing in zip(ways, (True, False), strict=True):
            low, high = way.lowest, way.highest
            epsilons = np.array([low, high, *(low + (high - low) * share for share in where)])
            for epsilon, found in zip(epsilons, way.profile(epsilons), strict=True):
                with mpmath.workdps(40):
                    exact = exact_delta(mpmath.mpf(float(epsilon)), noise, parts, removing=removing)
                    assert (
                        exact <= float(found) * (1 + 2.0**-49) + 2.0**-80
                    )  # what `losses.py` adds
                    assert float(found) <= exact * (1 + 1e-9) + 1e-12


def test_one_record_of_a_user_is_the_sampled_gaussian() -> None:
    event = dp_accounting.dp_event.MixtureOfGaussiansDpEvent(0.8, (0.0, 1.0), (0.97, 0.03))
    plain = dp_accounting.PoissonSampledDpEvent(0.03, dp_accounting.GaussianDpEvent(0.8))
    ours, theirs = (
        event_losses(each, relation="zero_out", interval=1e-3) for each in (event, plain)
    )
    for epsilon in (0.0, 0.01, 0.5, 4.0):
        for one, other in zip(ours.pmfs, theirs.pmfs, strict=True):
            assert one.delta(epsilon, interval=1e-3) == pytest.approx(
                other.delta(epsilon, interval=1e-3), rel=1e-7, abs=1e-14
            )


def test_a_step_on_the_grid_is_not_below_the_exact_delta_to_the_last_digits() -> None:
    """Between the grid's places delta may be higher; dp_accounting's own distribution is 2e-14 below at one of them."""
    parts = several(2, 0.01)
    event = dp_accounting.dp_event.MixtureOfGaussiansDpEvent(
        0.5, tuple(s for s, _ in parts), tuple(share for _, share in parts)
    )
    removed, added = event_losses(event, relation="zero_out", interval=0.05).pmfs
    with mpmath.workdps(40):
        for place in range(-1, 200, 3):
            for way, removing in ((removed, True), (added, False)):
                exact = exact_delta(place * mpmath.mpf(0.05), 0.5, parts, removing=removing)
                assert exact <= way.delta(place * 0.05, interval=0.05) * (1 + 1e-15)


@pytest.mark.parametrize(
    ("sensitivities", "shares"),
    [
        ((0.0,), (1.0,)),
        ((0.0, 1.0), (1.0,)),
        ((0.0, 1.0), (0.5, 0.4)),
        ((0.0, 1.0), (1.0, 0.0)),
        ((), ()),
    ],
)
def test_a_mixture_that_is_none_is_refused(
    sensitivities: tuple[float, ...], shares: tuple[float, ...]
) -> None:
    event = dp_accounting.dp_event.MixtureOfGaussiansDpEvent(1.0, sensitivities, shares)
    with pytest.raises(PrivacyRefusal):
        Pld().compose([(event, 3)], relation="zero_out")
