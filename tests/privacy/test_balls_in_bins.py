"""Balls in bins: bounds of its Renyi divergences against independent computations, and estimates that stay estimates."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import ClassVar

import dp_accounting
import numpy as np
import pytest
from scipy import stats

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants import Pld, Rdp
from dppipe.privacy.accountants.base import require_certificate
from dppipe.privacy.events.balls_in_bins import event_class
from dppipe.privacy.events.plain import event_from_data, event_to_data
from dppipe.privacy.profiles.draws import sampled_losses
from dppipe.privacy.rdp.balls_in_bins import _added, _removed, bin_divergences
from dppipe.privacy.rdp.divergences import ORDERS

DELTA = 1e-5


def epoch(bins: int, z: float) -> dp_accounting.DpEvent:
    return event_class()(bins, dp_accounting.GaussianDpEvent(z))


def test_removing_a_record_is_exact_at_whole_orders() -> None:
    found = _removed(1.0, 100, np.array([2.0, 4.0, 8.0]))
    assert found == pytest.approx([0.0170368632, 0.0347513765, 0.0765100228], abs=1e-9)
    assert found[0] == pytest.approx(math.log(1 + (math.e - 1) / 100), rel=1e-12)


def two_bins(z: float, order: float, *, adding: bool) -> float:
    """Sum up over a fine grid of the two releases of an epoch."""
    step = z / 20
    x = np.arange(-9 * z - order, 9 * z + order, step)
    normal = stats.norm(scale=z).logpdf
    one = normal(x)[:, None] + normal(x)[None, :]
    other = np.logaddexp(
        normal(x - 1)[:, None] + normal(x)[None, :], normal(x)[:, None] + normal(x - 1)[None, :]
    ) - math.log(2)
    left, right = (one, other) if adding else (other, one)
    return math.log(np.exp(order * left + (1 - order) * right).sum() * step**2) / (order - 1)


@pytest.mark.parametrize(("z", "order"), [(1.0, 2.0), (2.0, 3.0), (1.5, 2.5)])
def test_both_directions_agree_with_a_double_integral(z: float, order: float) -> None:
    adding, removing = (two_bins(z, order, adding=way) for way in (True, False))
    assert _added(z, 2, np.array([order]))[0] == pytest.approx(adding, rel=1e-6)
    bound = _removed(z, 2, np.array([order]))[0]
    assert bound >= removing * (1 - 1e-6)
    assert bound == pytest.approx(removing, rel=1e-6 if order == int(order) else 0.1)


@pytest.mark.parametrize(("z", "bins"), [(2.0, 3), (10.0, 10)])
def test_an_epoch_is_charged_for_the_costlier_direction_but_for_no_more_than_a_known_bin(
    z: float, bins: int
) -> None:
    """Adding a record has the larger bound at some of these orders: none may be charged for removing one alone."""
    orders = np.array(ORDERS)
    ways = np.maximum(_removed(z, bins, orders), _added(z, bins, orders))
    known_bin = orders / (2 * z**2)
    assert (_added(z, bins, orders) > _removed(z, bins, orders))[ways < known_bin].any()
    np.testing.assert_array_equal(bin_divergences(z, bins, orders), np.minimum(ways, known_bin))


@pytest.mark.parametrize(("z", "bins"), [(0.5, 20), (1.0, 100), (8.0, 50)])
def test_no_bound_is_below_what_is_drawn(z: float, bins: int) -> None:
    """At order 1.5 moments of both directions have small variance; false alarms below 1e-9 (6 standard errors)."""
    bound = bin_divergences(z, bins, np.array([1.5]))[0]
    for losses in sampled_losses(z, bins):
        powers = np.exp(0.5 * losses)
        least = powers.mean() - 6 * powers.std() / math.sqrt(len(powers))
        assert bound >= math.log(least) / 0.5


@pytest.mark.parametrize("z", [0.4, 1.0, 5.0])
def test_more_bins_never_cost_more_and_one_bin_is_no_sampling(z: float) -> None:
    orders = np.array(ORDERS)
    found = [bin_divergences(z, bins, orders) for bins in (1, 2, 5, 30, 1000)]
    np.testing.assert_allclose(found[0], orders / (2 * z**2))
    for fewer, more in pairwise(found):
        assert (more <= fewer * (1 + 1e-9) + 1e-7).all()


def test_an_event_can_be_charged_and_read_back() -> None:
    event = epoch(10, 1.5)
    assert event_from_data(event_to_data(event)) == event


def test_rdp_certifies_and_pld_only_estimates() -> None:
    steps = [(epoch(100, 1.0), 10), (dp_accounting.GaussianDpEvent(20.0), 1)]
    certified = require_certificate(Rdp().compose(steps, relation="zero_out"))
    estimate = Pld().compose(steps, relation="zero_out")
    assert 0.7 * certified.epsilon(DELTA) < estimate.epsilon(DELTA) < certified.epsilon(DELTA)
    with pytest.raises(PrivacyRefusal, match="estimate"):
        require_certificate(estimate)


def test_one_epoch_is_estimated_below_poisson_sampling_and_certified_below_no_sampling() -> None:
    """The estimate of one epoch at 100 bins, z = 1: about 0.60, against 0.718 for Poisson and 4.38 without sampling."""
    assert Pld().compose([(epoch(100, 1.0), 1)], relation="zero_out").epsilon(
        DELTA
    ) == pytest.approx(0.60, abs=0.05)
    assert 0.718 < Rdp().compose([(epoch(100, 1.0), 1)], relation="zero_out").epsilon(DELTA) < 1.2


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_other_relations_are_refused(relation: str) -> None:
    for accountant in (Rdp(), Pld()):
        with pytest.raises(PrivacyRefusal):
            accountant.compose([(epoch(10, 1.0), 1)], relation=relation)


class FewEvents(Rdp):
    """Rounds any schedule of more than three events."""

    distinct: ClassVar[int | None] = 3


def test_a_long_schedule_of_noise_is_rounded_without_losing_its_bins() -> None:
    steps = [(epoch(20, 2.0 + t / 10), 1) for t in range(5)]
    exact, rounded = (
        each.compose(steps, relation="zero_out").epsilon(DELTA) for each in (Rdp(), FewEvents())
    )
    most = Rdp().compose([(epoch(20, 2.0), 5)], relation="zero_out").epsilon(DELTA)
    assert exact < rounded < most
