"""A curve that is read at few points is still a bound: nowhere below the exact curve."""

from __future__ import annotations

import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent

from dppipe.privacy.accountants import Advanced, Basic, Pld, Tcdp
from dppipe.privacy.failures import FailureCurve
from dppipe.privacy.tradeoff.few_points import FewPoints, cheap_curve

STEPS = [(PoissonSampledDpEvent(0.05, GaussianDpEvent(3.0)), 20)]


@pytest.mark.parametrize("accountant", [Advanced(), Basic(), Tcdp()], ids=lambda one: one.kind)
def test_few_points_are_nowhere_below_the_exact_curve(accountant):
    curve = accountant.compose(STEPS, relation="zero_out").curve
    read = cheap_curve(curve, delta=1e-5)
    assert isinstance(read, FewPoints)
    assert read.epsilon(1e-5) == curve.epsilon(1e-5)
    exact = Pld().compose(STEPS, relation="zero_out").curve
    for delta in (1e-8, 3e-6, 1e-4, 0.02):
        assert read.epsilon(delta) >= exact.epsilon(delta)
    for epsilon in (0.0, 0.1, 0.3, 1.0, 3.0):
        assert read.delta(epsilon) >= exact.delta(epsilon)


def test_a_part_that_is_slow_makes_the_whole_slow_and_others_stay_as_they_are():
    slow = Basic().compose(STEPS, relation="zero_out").curve
    quick = Pld().compose(STEPS, relation="zero_out").curve
    assert isinstance(cheap_curve(FailureCurve(slow, 1e-7), delta=1e-5), FewPoints)
    assert cheap_curve(FailureCurve(quick, 1e-7), delta=1e-5).__class__ is FailureCurve
    assert cheap_curve(quick, delta=1e-5) is quick
