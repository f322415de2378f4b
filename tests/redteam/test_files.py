"""Records in files: statistics are charged for, and no file of a run shows how many records there are under add_remove."""

from __future__ import annotations

import pytest
from redteam.neighbours import file_pair
from redteam.running import Case, Command, assert_indistinguishable

CSV = (
    "data={kind: csv, path: records.csv, holdout: public, numeric: [{column: a}, {column: b}, {column: c}, {column: d}], "
    "target: {column: class, classes: [c0, c1, c2]}}"
)
NPZ = "data={kind: npz, path: records.npz, classes: 3, holdout: public}"
ALL = "data.split={train: 1.0, val: 0.0, test: 0.0}"


@pytest.mark.parametrize(
    ("file", "changes"),
    [("records.csv", (CSV, "data.records=24", ALL)), ("records.npz", (NPZ, ALL))],
)
def test_a_file_shows_nothing_of_one_record(file, changes, tmp_path):
    assert_indistinguishable(
        Case(Command(changes, file=file), lambda: file_pair("replace_one")), tmp_path
    )


@pytest.mark.parametrize(
    ("file", "changes"), [("records.csv", (CSV, ALL)), ("records.npz", (NPZ, ALL))]
)
def test_no_file_of_a_run_shows_how_many_records_there_are_item5(file, changes, tmp_path):
    assert_indistinguishable(
        Case(Command(changes, file=file), lambda: file_pair("add_remove")), tmp_path
    )


@pytest.mark.parametrize("bins", ["", ", bins: 16"])
def test_statistics_of_the_records_are_covered_by_their_noise(bins, tmp_path):
    statistics = (
        f"data.normalize={{kind: private, noise_multiplier: 8.0, lower: -2.0, upper: 2.0{bins}}}"
    )
    run = Command((NPZ, ALL, statistics), file="records.npz")
    assert_indistinguishable(Case(run, lambda: file_pair("replace_one")), tmp_path)
