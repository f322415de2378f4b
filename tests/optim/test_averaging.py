"""Iterate averages against their definitions."""

from __future__ import annotations

import numpy
import pytest

from dppipe.optim.averaging import Averaging, Ema, Polyak
from dppipe.spec.kinds.registry import Registry

KINDS = Registry().kinds("averaging")
WEIGHTS = numpy.random.default_rng(0).normal(size=40)


def average(averaging: Averaging, weights: numpy.ndarray) -> float:
    mean = 0.0
    for step, value in enumerate(weights, start=1):
        mean += averaging.weight(step, steps=len(weights)) * (value - mean)
    return mean


@pytest.mark.parametrize("start", [0.0, 0.5, 0.9])
def test_polyak_is_the_plain_mean_of_the_end_of_the_run(start: float) -> None:
    assert average(Polyak(start=start), WEIGHTS) == pytest.approx(WEIGHTS[int(start * 40) :].mean())


@pytest.mark.parametrize("decay", [0.5, 0.99])
def test_ema_weighs_each_step_by_its_age(decay: float) -> None:
    ages = decay ** numpy.arange(39, -1, -1)
    assert average(Ema(decay=decay), WEIGHTS) == pytest.approx((ages @ WEIGHTS) / ages.sum())


@pytest.mark.parametrize("kind", KINDS)
def test_every_average_starts_from_the_first_weights_and_keeps_what_does_not_move(
    kind: str,
) -> None:
    averaging = Registry().load("averaging", kind).from_data({})
    assert isinstance(averaging, Averaging)
    assert averaging.weight(1, steps=100) == 1
    assert all(0 < averaging.weight(step, steps=100) <= 1 for step in range(1, 101))
    assert average(averaging, numpy.full(30, 0.25)) == 0.25
