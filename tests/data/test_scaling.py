"""Scaling takes public constants, and nothing that would have to be fitted."""

from __future__ import annotations

import numpy
import pytest
from pydantic import ValidationError

from dppipe.data import Digits
from dppipe.data.reading.scaling import Constants
from dppipe.errors import SpecError


@pytest.mark.parametrize(
    "asked", ["fit", "auto", "standard", True, {"mean": "fit"}, {"std": "auto"}, {"mean": True}]
)
def test_fitting_is_refused_with_the_reason(asked: object) -> None:
    with pytest.raises(
        ValidationError,
        match=r"Statistics of private records are a release of their own: give constants",
    ):
        Digits.from_data({"normalize": asked})


@pytest.mark.parametrize(
    "wrong",
    [{"std": 0}, {"std": [1, -1]}, {"mean": []}, {"mean": ["a"]}, {"median": 1}, [0.5, 0.5], 3],
)
def test_what_is_no_constant_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        Digits.from_data({"normalize": wrong})


@pytest.mark.parametrize(("mean", "std"), [(0.5, 2), ([0.5, 1, 2], 2), ([0.5], [1, 2, 4])])
def test_constants_go_by_channel(mean: object, std: object) -> None:
    inputs = numpy.random.default_rng(0).normal(size=(5, 3, 2, 2)).astype(numpy.float32)
    expected = (inputs.astype(float) - numpy.reshape(mean, (1, -1, 1, 1))) / numpy.reshape(
        std, (1, -1, 1, 1)
    )
    Constants.from_data({"mean": mean, "std": std}).apply(inputs)
    numpy.testing.assert_allclose(inputs, expected, rtol=1e-6, atol=1e-6)


def test_as_many_constants_as_channels_are_needed() -> None:
    with pytest.raises(SpecError, match=r"data\.normalize\.std: expected 1 number or 3, .* got 2"):
        Constants.from_data({"std": [1, 2]}).apply(numpy.zeros((5, 3), dtype=numpy.float32))
