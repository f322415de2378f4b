"""The shipped table of what learners reach: each row says how it was made, and the page shows it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import dppipe

ROOT = Path(dppipe.__file__).parents[1]
TABLE = Path(dppipe.__file__).parent / "learners" / "measured.json"
ROWS = json.loads(TABLE.read_text())


def test_every_row_says_how_its_setting_was_chosen_and_that_the_choice_was_not_charged():
    for row in ROWS:
        assert row["settings_tried"] >= 2
        assert row["runs"] == 5
        assert "not charged" in row["choice"]
        assert f"kind: {row['learner']}" in row["setting"] or row["learner"] == "dp_sgd"


def test_every_learner_has_as_many_settings_tried_as_dp_sgd_beside_it():
    tried = {(row["task"], row["epsilon"], row["settings_tried"]) for row in ROWS}
    cells = {(task, epsilon) for task, epsilon, _ in tried}
    assert len(tried) == len(cells)
    for cell in cells:
        learners = {row["learner"] for row in ROWS if (row["task"], row["epsilon"]) == cell}
        assert "dp_sgd" in learners


def test_the_page_on_learners_shows_every_row():
    page = (ROOT / "docs" / "learners.md").read_text()
    for row in ROWS:
        shown = f"{100 * row['mean']:.1f} +- {100 * row['spread']:.1f}"
        (line,) = [
            line
            for line in page.splitlines()
            if line.startswith(f"| {row['task']} | `{row['learner']}`")
        ]
        assert f"| {shown} |" in line, (row["task"], row["learner"], row["epsilon"])


def test_the_table_is_in_the_package():
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert "learners/measured.json" in packaged["package-data"]["dppipe"]
