"""TensorBoard's dashboard: what stands in it, and that it says what the ledger says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dppipe.cli.tensorboard import _named_runs, _one_folder
from dppipe.pipeline.run import run_spec
from dppipe.planning.privacy_plan import make_plan
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.charges import Charge
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.runs.showing.cost_lines import write_cost_lines
from dppipe.runs.showing.dashboard import EPSILON_SCALE, layout, shorten_forecast, write_lines
from dppipe.spec import load_spec


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run on a public holdout."""
    path = tmp_path_factory.mktemp("runs") / "digits" / "first"
    spec = load_spec(
        "pipelines/quickstart.yaml",
        overrides=["train={steps: 8}", "model=logistic"],
    )
    run_spec(spec, make_plan(spec), run_dir=path)
    write_cost_lines(path)
    return path


def _curves(folder: Path) -> EventAccumulator:
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    found.Reload()
    return found


def _points(folder: Path, tag: str) -> list[tuple[int, float]]:
    return [(point.step, point.value) for point in _curves(folder).Scalars(tag)]


def _charges(run: Path) -> tuple[Charge, ...]:
    plan = (run / "plan.json").read_bytes()
    return tuple(read_ledger(run / "ledger.jsonl", plan=plan).charges)


def test_epsilon_read_back_equals_the_ledger_row_by_row(run: Path) -> None:
    rows = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    shown = _points(run, "privacy/epsilon")
    assert [step for step, _ in shown] == [row["step"] for row in rows]
    for (_, value), row in zip(shown, rows, strict=True):
        assert value == pytest.approx(row["epsilon"], rel=1e-6)


def test_a_forecast_goes_from_where_the_run_is_to_the_plans_end(run: Path, tmp_path: Path) -> None:
    assert not (run / "curves/forecast").exists()  # the run has ended
    plan = StepPlan.from_json((run / "plan.json").read_bytes())
    write_lines(tmp_path, plan)
    whole = _points(tmp_path / "curves/forecast", "forecast/epsilon")
    assert [step for step, _ in whole] == [point.step for point in plan.curve]
    shorten_forecast(tmp_path, plan, taken=5)
    rest = _points(tmp_path / "curves/forecast", "forecast/epsilon")
    assert [step for step, _ in rest] == [5, 6, 7, 8]
    for step, value in rest:
        assert value == pytest.approx(plan.epsilon_after(step), rel=1e-6)


def test_budget_and_what_is_left_are_lines_of_their_own(run: Path) -> None:
    plan = json.loads((run / "plan.json").read_text())
    budget = _points(run / "curves/budget", "budget/epsilon")
    assert [value for _, value in budget] == [3.0, 3.0]
    left = dict(_points(run / "curves/left", "left/epsilon"))
    for point in plan["curve"]:
        assert left[point["step"]] == pytest.approx(3.0 - point["epsilon"], abs=1e-6)


def test_metrics_of_a_public_holdout_stand_against_epsilon(run: Path) -> None:
    by_step = _points(run, "val/accuracy")
    by_epsilon = _points(run / "curves/by_epsilon", "by_epsilon/accuracy")
    spent = {charge.step: charge.epsilon for charge in _charges(run)}
    expected = [(round(EPSILON_SCALE * spent[step]), value) for step, value in by_step]
    assert by_epsilon == expected


def test_costs_by_accountant_are_those_of_the_ledgers_rows(run: Path) -> None:
    last = _charges(run)[-1].epsilon
    pld = _points(run / "curves/cost_pld", "cost/epsilon")[-1]
    rdp = _points(run / "curves/cost_rdp", "cost/epsilon")[-1]
    assert pld == (8, pytest.approx(last, rel=1e-4))
    assert rdp[0] == 8
    assert rdp[1] > pld[1]
    limits = json.loads((run / "plan.json").read_text())["attack_limits"]["membership"]
    attacker = _points(run / "curves/attacker", "attacker/tpr_at_fpr_1_percent")
    assert attacker[-1][1] == pytest.approx(limits[1]["true_positive_rate"], rel=1e-3)
    assert [value for _, value in attacker] == sorted(value for _, value in attacker)


def test_statement_and_settings_are_there_and_hold_no_private_metric(run: Path) -> None:
    tags = _curves(run).Tags()
    assert "privacy statement/text_summary" in tags["tensors"]
    assert "_hparams_/session_start_info" in _curves(run).summary_metadata
    statement = _curves(run).Tensors("privacy statement/text_summary")[0].tensor_proto
    assert statement.string_val[0].decode() == (run / "privacy.md").read_text()


def test_a_private_holdouts_metrics_stay_apart(tmp_path: Path) -> None:
    spec = load_spec(
        "pipelines/quickstart.yaml",
        overrides=["train={steps: 3}", "model=logistic", "data.holdout=private"],
    )
    plan = make_plan(spec)
    run_spec(spec, plan, run_dir=tmp_path / "run")
    assert not (tmp_path / "run/curves/by_epsilon").exists()
    for section, charts in layout(plan).items():
        tags = [tag for chart in charts.values() for tag in chart[1]]
        assert section.startswith("Not private") == any("nonprivate" in tag for tag in tags)
    for folder in (tmp_path / "run").rglob("events.out.tfevents.*"):
        for tag in _curves(folder.parent).Tags()["scalars"]:
            assert "accuracy" not in tag or tag.startswith("nonprivate/")


def test_runs_have_names_and_two_of_one_name_are_told_apart(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "digits/first")
    named = _named_runs([run, tmp_path])
    assert list(named) == ["digits/first", "digits/first-2"]
    with _one_folder(named) as folder:
        assert (folder / "digits/first/plan.json").samefile(run / "plan.json")
    assert run.exists()


def test_a_run_without_curves_or_with_a_broken_ledger_has_no_cost_lines(tmp_path: Path) -> None:
    assert not write_cost_lines(tmp_path)
