"""Statistics of private records: bounded for every record, right without noise, and safe after any noise."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import ValidationError

from dppipe.data import Csv, Digits, Npz, Synthetic
from dppipe.data.reading.private_scaling import PrivateScaling, padded
from dppipe.data.reading.scaling import Constants

SCALING = PrivateScaling(noise_multiplier=1.0, lower=(-2.0, 0.0, 5.0), upper=(2.0, 1.0, 9.0))


@settings(deadline=None, max_examples=200)
@given(inputs=arrays(numpy.float32, (4, 3, 2), elements=st.floats(width=32)))
def test_no_record_counts_for_more_than_the_sensitivity(inputs: numpy.ndarray) -> None:
    with numpy.errstate(all="ignore"):
        vectors = SCALING.vectors(inputs)
    assert numpy.isfinite(vectors).all()
    assert (numpy.linalg.norm(vectors, axis=1) <= SCALING.sensitivity(3) * (1 + 1e-12)).all()


def test_the_sensitivity_is_reached() -> None:
    corner = numpy.array([[[2.0], [1.0], [9.0]]], dtype=numpy.float32)
    assert numpy.linalg.norm(SCALING.vectors(corner)) == pytest.approx(SCALING.sensitivity(3))


def test_without_noise_mean_and_deviation_are_those_of_the_records() -> None:
    inputs = (
        numpy.random.default_rng(0)
        .uniform([-2, 0.2, 6], [1, 0.9, 7], size=(9000, 3))
        .astype(numpy.float32)
    )
    constants = SCALING.constants(SCALING.total(inputs, None), count=9000)
    assert constants.mean == pytest.approx(inputs.mean(axis=0), abs=1e-4)
    assert constants.std == pytest.approx(inputs.std(axis=0), abs=1e-4)


def test_images_are_scaled_by_channel() -> None:
    inputs = numpy.random.default_rng(0).uniform(size=(500, 2, 4, 4)).astype(numpy.float32)
    scaling = PrivateScaling(noise_multiplier=1.0)
    constants = scaling.constants(scaling.total(inputs, None), count=500)
    assert constants.mean == pytest.approx(inputs.mean(axis=(0, 2, 3)), abs=1e-4)
    assert constants.std == pytest.approx(inputs.std(axis=(0, 2, 3)), abs=1e-3)


def test_values_beyond_the_limits_count_as_the_limits() -> None:
    far = numpy.array([[1e30, -1e30, numpy.nan], [numpy.inf, -numpy.inf, 7.0]], dtype=numpy.float32)
    near = numpy.array([[2.0, 0.0, 7.0], [2.0, 0.0, 7.0]], dtype=numpy.float32)
    with numpy.errstate(all="ignore"):
        assert SCALING.vectors(far) == pytest.approx(SCALING.vectors(near))


def test_a_user_counts_once_however_many_records_there_are() -> None:
    inputs = numpy.array([[-2.0, 0.0, 5.0]] * 9 + [[2.0, 1.0, 9.0]], dtype=numpy.float32)
    total = SCALING.total(inputs, numpy.array([0] * 9 + [1]))
    assert total == pytest.approx([0, 0, 0, 1, 1, 1])
    many = numpy.random.default_rng(0).normal(size=(10_000, 3)).astype(numpy.float32)
    users = numpy.random.default_rng(1).integers(0, 7, 10_000)
    wanted = sum(SCALING.vectors(many[users == user]).mean(axis=0) for user in range(7))
    assert SCALING.total(many, users) == pytest.approx(wanted)


@settings(deadline=None)
@given(noisy=arrays(numpy.float64, 6, elements=st.floats(-1e9, 1e9)), count=st.integers(1, 10**6))
def test_whatever_the_noise_the_constants_can_be_scaled_by(
    noisy: numpy.ndarray, count: int
) -> None:
    constants = SCALING.constants(noisy, count=count)
    assert all(
        0.05 * half <= std <= half for std, half in zip(constants.std, (2.0, 0.5, 2.0), strict=True)
    )
    assert all(
        low <= mean <= high
        for low, mean, high in zip(SCALING.lower, constants.mean, SCALING.upper, strict=True)
    )


def test_features_after_the_first_ones_stay_as_they_are() -> None:
    assert padded(Constants(mean=(1.0,), std=(2.0,)), 3) == Constants(
        mean=(1.0, 0.0, 0.0), std=(2.0, 1.0, 1.0)
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "private"},
        {"kind": "private", "noise_multiplier": 0},
        {"kind": "private", "noise_multiplier": "auto"},
        {"kind": "private", "noise_multiplier": 1, "lower": 1},
        {"kind": "private", "noise_multiplier": 1, "lower": [0, 2], "upper": [1, 1]},
        {"kind": "private", "noise_multiplier": 1, "lower": [0, 0], "upper": [1, 1, 1]},
        {"kind": "private", "noise_multiplier": 1, "mean": 0.5},
        {"kind": "fitted"},
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Digits.from_data({"normalize": wrong})


@pytest.mark.parametrize("kind", [Digits, Synthetic])
def test_options_survive_being_written_and_read(kind: Any) -> None:
    made = kind.from_data({"normalize": {"kind": "private", "noise_multiplier": 2, "upper": 3}})
    written = made.to_data()
    written.pop("kind")
    assert type(made).from_data(written) == made
    assert made.private_scaling == PrivateScaling(noise_multiplier=2.0, upper=(3.0,))


def test_nothing_is_scaled_when_records_are_read() -> None:
    plain, private = (
        Digits.from_data({"normalize": asked}).load()
        for asked in (None, {"kind": "private", "noise_multiplier": 1})
    )
    assert (plain.tensors[0] == private.tensors[0]).all()
    assert Digits().private_scaling is None


def test_only_the_numeric_columns_of_a_table_are_scaled() -> None:
    target = {"column": "y", "classes": [0, 1]}
    options = {"path": "x.csv", "numeric": [{"column": "a"}, {"column": "b"}], "target": target}
    table = Csv.from_data({**options, "normalize": {"kind": "private", "noise_multiplier": 3}})
    assert table.scaled_features == 2
    assert table.private_scaling is not None
    assert Npz.from_data({"path": "x.npz"}).scaled_features is None


def test_a_table_without_numeric_columns_has_nothing_to_scale() -> None:
    target = {"column": "y", "classes": [0, 1]}
    options = {
        "path": "x.csv",
        "categorical": [{"column": "a", "values": ["u", "v"]}],
        "target": target,
    }
    with pytest.raises(ValidationError, match="Leave normalize out"):
        Csv.from_data({**options, "normalize": {"kind": "private", "noise_multiplier": 3}})
