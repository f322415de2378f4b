"""Every recipe runs to its end within a minute, within its budget, and leaves a ledger that adds up."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.runs.verify import verify_ledger

ROOT = Path(dppipe.__file__).parents[1]
RECIPES = sorted((ROOT / "pipelines" / "recipes").glob("*.yaml"))
LEARNED = {"laplace": 0.7, "shuffled_epochs": 0.6}
"""What a recipe must reach on its public holdout, where that is less than what all others reach."""


def test_the_recipes_that_are_promised_are_there() -> None:
    promised = "full_batch poisson fixed_size shuffled_epochs dynamic_schedule momentum_schedule users residual_budget"
    assert set(promised.split()) <= {path.stem for path in RECIPES}


@pytest.mark.slow
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_runs_in_under_a_minute_and_stays_within_its_budget(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)  # where plugins/ is
    start = time.process_time()
    result = CliRunner().invoke(app, ["run", str(path), "--run-dir", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert time.process_time() - start < 60
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert summary["status"] in ("completed", "budget_exhausted")
    assert 0.9 * plan["budget_epsilon"] < summary["epsilon"] <= plan["budget_epsilon"]
    assert summary["certified"]
    assert summary["metrics"]["val/accuracy"] > LEARNED.get(path.stem, 0.75)
    found = verify_ledger(tmp_path / "run")
    assert found.intact, found.faults
