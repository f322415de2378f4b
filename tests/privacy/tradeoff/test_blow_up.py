"""The blow-up of a privacy curve: vectors, the exact Gaussian, and the polygon's own geometry."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from dppipe.privacy.accountants import Pld
from dppipe.privacy.gaussian import GaussianCurve, gaussian_scale
from dppipe.privacy.tradeoff.blow_up import blow_up_of
from dppipe.privacy.tradeoff.one_point import OnePoint

MUS = st.floats(0.01, 6.0)
PLACES = np.concatenate([[0.0, 1e-6, 1e-4], np.linspace(0.001, 0.999, 57), [1.0]])


def exact(x, mu):
    return special.ndtr(special.ndtri(x) + mu)


def test_the_blow_up_of_gaussian_privacy_equals_the_vectors():
    blow_up = blow_up_of(GaussianCurve(mu=1.0))
    published = [0.0032738, 0.0182985, 0.0923622, 0.3891437, 0.8413447]
    assert blow_up([1e-4, 1e-3, 0.01, 0.1, 0.5]) == pytest.approx(published, rel=5e-5)


@pytest.mark.parametrize(
    ("epsilon", "rates", "hit"),
    [
        (0.5, [0.00160, 0.01448, 0.12728], 0.000174),
        (1.0, [0.00238, 0.01978, 0.15541], 0.000279),
        (3.0, [0.00887, 0.05400, 0.28691], 0.001350),
        (8.0, [0.07719, 0.25453, 0.64969], 0.020037),
    ],
)
def test_what_a_gaussian_claim_leaves_to_an_attack_equals_the_vectors(epsilon, rates, hit):
    blow_up = blow_up_of(GaussianCurve(mu=1 / gaussian_scale(epsilon, 1e-5)))
    assert blow_up([0.001, 0.01, 0.1]) == pytest.approx(rates, abs=1e-5)
    assert float(blow_up(1e-4)) == pytest.approx(hit, abs=1e-6)


def test_what_a_sampled_run_leaves_to_an_attack_equals_the_vectors():
    step = PoissonSampledDpEvent(256 / 1438, GaussianDpEvent(2.8332))
    cost = Pld().compose([(step, 113)], relation="zero_out")
    blow_up = blow_up_of(cost.curve)
    assert blow_up([0.001, 0.01, 0.1]) == pytest.approx([0.00853, 0.05166, 0.27621], abs=1e-5)
    assert float(blow_up(1e-4)) == pytest.approx(0.001315, abs=1e-6)
    assert cost.delta(0.0) == pytest.approx(0.26560, abs=1e-5)


def test_one_point_alone_leaves_much_more():
    blow_up = blow_up_of(OnePoint(3.0, 1e-5))
    assert blow_up([0.001, 0.01, 0.1]) == pytest.approx([0.02010, 0.20087, 0.95519], abs=1e-5)
    assert OnePoint(3.0, 1e-5).delta(0.0) == pytest.approx(0.90515, abs=1e-5)


@given(mu=MUS)
def test_the_blow_up_is_never_below_the_exact_one(mu):
    found = blow_up_of(GaussianCurve(mu=mu))(PLACES)
    assert (found >= exact(PLACES, mu)).all()
    assert (found <= 1).all()


@given(mu=MUS)
def test_the_inverse_is_never_above_the_exact_one(mu):
    found = blow_up_of(GaussianCurve(mu=mu)).inverse(PLACES)
    assert (found <= exact(PLACES, -mu)).all()
    assert (found >= 0).all()


@given(mu=MUS, points=st.integers(2, 40))
def test_corners_describe_the_whole_polygon(mu, points):
    blow_up = blow_up_of(GaussianCurve(mu=mu), points=points)
    places, heights = blow_up.corners()
    assert (np.diff(places) >= 0).all()
    assert np.interp(PLACES, places, heights) == pytest.approx(blow_up(PLACES), abs=1e-12)


@given(epsilon=st.floats(0.01, 20), delta=st.floats(1e-12, 0.5), at=st.floats(0, 25))
def test_one_point_is_above_every_curve_through_it(epsilon, delta, at):
    curve = GaussianCurve(mu=1 / gaussian_scale(epsilon, delta))
    point = OnePoint(epsilon, delta)
    if at <= epsilon:
        assert point.delta(at) >= curve.delta(at) - 1e-9
        assert point.epsilon(point.delta(at)) == pytest.approx(at, abs=1e-6)
