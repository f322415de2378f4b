"""Public limits of groups of features: each feature has its own, and no record counts for more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
from pydantic import ValidationError

from dppipe.data import Csv
from dppipe.data.reading.private_scaling import PrivateScaling
from dppipe.errors import SpecError

GROUPS = [
    {"features": "0-1", "lower": 0, "upper": 2},
    {"features": [3], "lower": -5, "upper": 5},
]


def scaling(limits: Any) -> PrivateScaling:
    return PrivateScaling.from_data(
        {"kind": "private", "noise_multiplier": 2, "lower": -1, "limits": limits}
    )


def test_features_have_the_limits_of_their_group_or_the_common_ones() -> None:
    lower, upper = scaling(GROUPS).limits_of(5)
    assert lower == (0, 0, -1, -5, -1)
    assert upper == (2, 2, 1, 5, 1)


def test_a_file_says_the_same_as_groups_in_the_spec(tmp_path: Path) -> None:
    path = tmp_path / "limits.csv"
    path.write_text("feature,lower,upper\n0-1,0,2\n\n3,-5,5\n")
    assert scaling(str(path)).limits_of(5) == scaling(GROUPS).limits_of(5)


def test_no_record_counts_for_more_whatever_the_limits() -> None:
    one = scaling(GROUPS)
    extremes = numpy.array([[9e9] * 5, [-9e9] * 5, [2, 2, 1, 5, 1], [0, 0, -1, -5, -1]])
    vectors = one.vectors(extremes.astype(numpy.float32))
    norms = numpy.linalg.norm(vectors, axis=1)
    assert (norms <= one.sensitivity(5) * (1 + 1e-12)).all()
    assert norms.max() == pytest.approx(one.sensitivity(5))


def test_without_noise_statistics_are_those_of_the_records_in_every_group() -> None:
    one = scaling(GROUPS)
    low, high = one.limits_of(5)
    inputs = numpy.random.default_rng(0).uniform(low, high, (4000, 5)).astype(numpy.float32)
    constants = one.constants(one.total(inputs, None), count=4000)
    assert constants.mean == pytest.approx(inputs.mean(axis=0), abs=1e-4)
    assert constants.std == pytest.approx(inputs.std(axis=0), abs=1e-4)


def table(limits: Any) -> Csv:
    return Csv.from_data(
        {
            "path": "t.csv",
            "numeric": [{"column": "age"}, {"column": "dose"}],
            "target": {"column": "ill"},
            "normalize": {"kind": "private", "noise_multiplier": 2, "limits": limits},
        }
    )


def test_columns_of_a_table_are_named() -> None:
    made = table([{"features": ["dose"], "lower": 0, "upper": 40}]).private_scaling
    assert made is not None
    assert made.limits_of(2) == ((0, 0), (1, 40))
    with pytest.raises(SpecError, match="Did you mean 'dose'"):
        _ = table([{"features": ["doze"], "lower": 0, "upper": 40}]).private_scaling


@pytest.mark.parametrize("features", ["5", "3-9", "4-2", "-1", "age", ""])
def test_features_that_are_not_there_are_refused(features: str) -> None:
    with pytest.raises(SpecError, match="expected features from 0 to 4"):
        scaling([{"features": features, "lower": 0, "upper": 1}]).limits_of(5)


def test_a_feature_in_two_groups_is_refused() -> None:
    twice = [*GROUPS, {"features": "1-2", "lower": 0, "upper": 1}]
    with pytest.raises(SpecError, match="expected each feature in one group, got 1 in two"):
        scaling(twice).limits_of(5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("feature,low,high\n0,0,1\n", "expected a first line feature,lower,upper"),
        ("feature,lower,upper\n0,0\n", r"csv:2: expected a feature and two numbers"),
        ("feature,lower,upper\n0,zero,1\n", r"csv:2: expected a feature and two numbers"),
        ("feature,lower,upper\n0,1,1\n", r"csv:2: expected lower < upper"),
        ("feature,lower,upper\n0,nan,1\n", r"csv:2: expected"),
        ("feature,lower,upper\n0,0,inf\n", r"csv:2: expected"),
        ("feature,lower,upper\n", "expected limits in"),
        (None, "No such file"),
    ],
)
def test_mistakes_in_a_file_are_named_with_their_line(
    tmp_path: Path, text: str | None, message: str
) -> None:
    path = tmp_path / "limits.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValidationError, match=message):
        scaling(str(path))


def test_a_wrong_number_of_limits_is_refused_before_anything_is_charged(
    run: Any, tmp_path: Path
) -> None:
    rng = numpy.random.default_rng(0)
    numpy.savez(tmp_path / "d.npz", x=rng.normal(size=(50, 4)), y=rng.integers(0, 3, 50))
    normalize = "{kind: private, noise_multiplier: 9, lower: [0, 0], upper: 1}"
    data = f"{{kind: npz, path: {tmp_path / 'd.npz'}, classes: 3, normalize: {normalize}}}"
    done = run(f"data={data}")
    assert done.exit_code == 2
    assert "data.normalize.lower: expected 1 number or 4" in " ".join(done.output.split())
    assert not (done.path / "ledger.jsonl").exists() or not done.rows
