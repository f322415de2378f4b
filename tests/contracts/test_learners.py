"""What every learner promises around its releases: the plan, its ledger, its files and its messages.

Each learner of the package has an entry in `learner_cases.py`. How far a record moves what is noised stands in
`test_learner_neighbours.py`, and what a crash leaves in `test_learner_deaths.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from contracts.learner_cases import CASES, LEARNERS, MINIMUM, OWN_CASES
from contracts.learner_runs import (
    ALL,
    Desk,
    Ran,
    Setting,
    each,
    inside,
    settings,
    usual_settings,
)
from contracts.staged_records import RECORDS, fill_stage
from learners.own_kinds import KINDS as OWN_KINDS

import dppipe
from dppipe.pipeline.learn import untrained_module
from dppipe.pipeline.prediction.predictor import Predictor
from dppipe.pipeline.scoring import score_split
from dppipe.privacy.printing import shown
from dppipe.runs.directory import RunDirectory
from dppipe.runs.page.writing import write_report
from dppipe.runs.verify import verify_ledger

USUAL = usual_settings()
BUILT_IN = usual_settings(CASES)
PREDICTING = [setting for setting in USUAL if setting.case.predicts]


@pytest.fixture
def desk(setting: Setting, tmp_path: Path) -> Desk:
    return Desk.make(tmp_path / "desk", setting)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return the run of a setting, made once."""
    made: dict[str, Ran] = {}

    def get(setting: Setting) -> Ran:
        if setting.id not in made:
            folder = tmp_path_factory.mktemp("finished")
            made[setting.id] = Desk.make(folder, setting).run()
        return made[setting.id]

    with pytest.MonkeyPatch.context() as patch:
        store = tmp_path_factory.mktemp("store") / "budgets.db"
        patch.setenv("DPPIPE_STORE", str(store))
        yield get


def test_every_learner_has_an_entry() -> None:
    assert {kind for kind in LEARNERS if kind != "dp_sgd"} == {case.kind for case in CASES}
    assert set(OWN_KINDS) == {case.kind for case in OWN_CASES}
    assert len({case.id for case in ALL}) == len(ALL)


# The plan.


@each(settings(supported=True))
def test_a_plan_lists_what_is_released_before_a_record_is_read(desk: Desk) -> None:
    plan = desk.plan()
    assert [release["what"] for release in plan["releases"]] == list(desk.setting.case.releases)
    assert len(plan["curve"]) == len(plan["releases"])
    epsilons = [point["epsilon"] for point in plan["curve"]]
    assert epsilons[0] > 0
    assert epsilons == sorted(epsilons)
    assert plan["epsilon"] == epsilons[-1]
    assert 0.999 * plan["budget_epsilon"] <= plan["epsilon"] <= plan["budget_epsilon"]
    assert (plan["relation"], plan["unit"]) == (desk.setting.relation, desk.setting.unit)
    units = 20 if desk.setting.unit == "user" else RECORDS
    assert plan["records"] == (None if desk.setting.relation == "add_remove" else units)


@each(USUAL)
def test_a_plan_shows_each_release_with_its_cost(desk: Desk) -> None:
    plan = desk.plan()
    said = desk.dppipe("plan", "spec.yaml")
    for point, name in zip(plan["curve"], desk.setting.case.names, strict=True):
        assert f" {shown(point['epsilon'])} {name}" in said


def test_plans_need_no_torch_and_answer_within_three_seconds(tmp_path: Path) -> None:
    folders: list[str] = []
    for setting in BUILT_IN:
        desk = Desk.make(tmp_path / setting.case.id, setting)
        folders.append(str(desk.folder))
    code = """
import json, os, sys, time
from typer.testing import CliRunner
found = []
for folder in sys.argv[1:]:
    os.chdir(folder)
    start = time.process_time()
    from dppipe.cli.app import app
    done = CliRunner().invoke(app, ["plan", "spec.yaml"])
    seconds = time.process_time() - start
    found.append([done.exit_code, done.output, "torch" in sys.modules, seconds])
print(json.dumps(found))
"""
    path = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(dppipe.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", code, *folders],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    for setting, (code, said, has_torch, seconds) in zip(
        BUILT_IN, json.loads(done.stdout), strict=True
    ):
        assert code == 0, said
        assert not has_torch, setting.id
        assert seconds < 3, setting.id


@each([setting for setting in USUAL if setting.case.too_little_noise])
def test_noise_that_costs_more_than_the_budget_is_refused(desk: Desk) -> None:
    before = sorted(desk.folder.iterdir())
    change = desk.setting.case.too_little_noise
    for command in (("plan", "spec.yaml"), ("run", "spec.yaml", "--run-dir", "run")):
        said = desk.dppipe(*command, "--set", str(change), code=None)
        assert "expected" in said
        assert "epsilon" in said
    desk.plan(str(change), code=3)
    assert sorted(desk.folder.iterdir()) == before


@each([setting for setting in USUAL if setting.case.more_noise])
def test_noise_that_is_given_is_the_noise_that_is_planned(desk: Desk) -> None:
    plan = desk.plan(str(desk.setting.case.more_noise))
    assert plan["epsilon"] < 0.5 * plan["budget_epsilon"]
    assert plan["releases"][0]["facts"].get("noise_multiplier", 20.0) == 20.0


@each(USUAL)
def test_blocks_that_the_learner_does_not_take_are_errors_at_their_lines(desk: Desk) -> None:
    before = sorted(desk.folder.iterdir())
    takes = desk.spec().learner.takes
    unused = [block for block in MINIMUM if block not in takes]
    assert "sampler" in unused
    text = (desk.folder / "spec.yaml").read_text()
    lines = text.count("\n")
    (desk.folder / "spec.yaml").write_text(text + "\n".join(MINIMUM[block] for block in unused))
    for command in ("validate", "plan", "run"):
        said = desk.dppipe(command, "spec.yaml", code=2)
        for number, block in enumerate(unused, start=lines + 1):
            assert f"spec.yaml:{number}:" in said
            assert f"expected no {block}, as learner {desk.setting.case.kind!r} takes none" in said
    assert sorted(desk.folder.iterdir()) == before


@each(USUAL)
def test_an_unknown_option_is_an_error_at_its_line(desk: Desk) -> None:
    before = sorted(desk.folder.iterdir())
    said = desk.dppipe("plan", "spec.yaml", "--set", "learner.unheard_of=1", code=2)
    assert "learner.unheard_of" in said
    text = (desk.folder / "spec.yaml").read_text()
    learner = text.splitlines().index(f"learner: {desk.setting.learner}") + 1
    (desk.folder / "spec.yaml").write_text(text.replace("learner: {", "learner: {unheard_of: 1, "))
    assert f"spec.yaml:{learner}:" in desk.dppipe("run", "spec.yaml", code=2)
    assert sorted(desk.folder.iterdir()) == before


@each(settings(supported=False))
def test_a_relation_or_unit_without_a_proof_is_refused_with_a_way_out(desk: Desk) -> None:
    said = desk.plan(code=None)
    if isinstance(said, dict):
        pytest.fail("planned what the entry says it doesn't support")
    assert "expected" in said
    assert any(f" {word} " in said.lower() for word in ("take", "set", "use"))
    before = sorted(desk.folder.iterdir())
    assert desk.dppipe("run", "spec.yaml", code=None) == said
    assert sorted(desk.folder.iterdir()) == before


# The run.


@each(settings(supported=True))
def test_a_run_charges_what_was_planned(desk: Desk, finished: Any) -> None:
    plan = desk.plan()
    run: Ran = finished(desk.setting)
    assert run.json("plan.json")["releases"] == plan["releases"]
    rows = run.rows
    assert [row["event"] for row in rows] == [release["event"] for release in plan["releases"]]
    assert [row["what"] for row in rows] == list(desk.setting.case.releases)
    assert [row["epsilon"] for row in rows] == [point["epsilon"] for point in plan["curve"]]
    assert {row["relation"] for row in rows} == {desk.setting.relation}
    assert {row["unit"] for row in rows} == {desk.setting.unit}
    assert rows[-1]["epsilon"] == plan["epsilon"] <= plan["budget_epsilon"]


@each(settings(supported=True))
def test_a_ledger_is_whole_and_its_epsilon_is_found_again(setting: Setting, finished: Any) -> None:
    run: Ran = finished(setting)
    found = verify_ledger(run.path)
    assert found.faults == ()
    assert found.certified
    assert found.charged == sum(row["count"] for row in run.rows)
    assert found.epsilon == pytest.approx(run.rows[-1]["epsilon"], rel=1e-4)
    assert found.claimed == run.rows[-1]["epsilon"]


@each(settings(supported=True))
def test_a_summary_states_the_run(setting: Setting, finished: Any) -> None:
    run: Ran = finished(setting)
    summary = run.json("summary.json")
    row = run.rows[-1]
    assert summary["status"] == "completed"
    assert summary["epsilon"] == summary["epsilon_spent"] == row["epsilon"]
    assert summary["charged"] == sum(row["count"] for row in run.rows)
    assert (summary["relation"], summary["unit"]) == (setting.relation, setting.unit)
    assert summary["delta"] == 1e-5
    assert summary["certified"] is True
    assert summary["ledger_head"] == verify_ledger(run.path).head
    names = {path.name for path in run.path.iterdir()}
    assert {"config.yaml", "plan.json", "ledger.jsonl", "privacy.md", "privacy.json"} <= names
    assert "nonprivate" not in names
    if setting.case.resumes:
        assert len(run.values()) == len(run.rows)


@each(settings(supported=True))
def test_a_statement_names_every_release_and_its_cost(setting: Setting, finished: Any) -> None:
    run: Ran = finished(setting)
    text = (run.path / "privacy.md").read_text()
    assert "NOT PRIVATE" not in text
    assert "(2, 1e-05)-differentially private" in text
    assert f"| protected unit | one {setting.unit}" in text
    assert f"| neighbouring relation | {setting.relation} |" in text
    assert "| status | certified: a proven upper bound |" in text
    assert f"The model was learned by '{setting.case.kind}'" in text
    counts = "| training records (public) |" in text or "| training users (public) |" in text
    assert counts == (setting.relation != "add_remove")
    if setting.case.resumes:
        check_listed_releases(run, text, setting.case.names)


def check_listed_releases(run: Ran, text: str, names: tuple[str, ...]) -> None:
    numbers = text.partition("## The numbers")[2].partition("## ")[0]
    lines = [line for line in numbers.splitlines() if line.endswith("| yes |")]
    for line, name, row in zip(lines, names, run.rows, strict=True):
        assert line.startswith(f"| {name}")
        assert f"| {row['event']['type']} | {row['count']} | yes |" in line
    assert "was charged in the ledger before" in text or "were charged in the ledger" in text
    released = text.partition("## What was released")[2].partition("## ")[0]
    assert released.count("in `released/`") == len({row["what"] for row in run.rows})


@each(USUAL)
def test_the_curve_of_epsilon_ends_at_what_was_spent(setting: Setting, finished: Any) -> None:
    run: Ran = finished(setting)
    (curves,) = (
        facts for name, facts in run.files.items() if "curves/" not in name and "tfevents" in name
    )
    for number, row in enumerate(run.rows, start=1):
        shown = float(curves[f"privacy/epsilon at step {number}"])
        left = float(curves[f"privacy/epsilon_remaining at step {number}"])
        assert shown == pytest.approx(row["epsilon"], rel=1e-6)
        assert left == pytest.approx(setting.case.epsilon - row["epsilon"], abs=1e-6)
    assert f"privacy/epsilon at step {len(run.rows) + 1}" not in curves


@each(USUAL)
def test_a_page_says_the_claim_and_no_number_without_a_guarantee(
    setting: Setting, finished: Any, tmp_path: Path
) -> None:
    run: Ran = finished(setting)
    path = tmp_path / "run"
    shutil.copytree(run.path, path, ignore=shutil.ignore_patterns("events.*", "*.ckpt"))
    summary = run.json("summary.json") | {"metrics": {"nonprivate/val/accuracy": 0.123454321}}
    (path / "summary.json").write_text(json.dumps(summary))
    page = write_report(RunDirectory.open(path)).read_text()
    assert "PROVEN: an upper bound" in page
    assert f'<dd class="">{shown(run.json("plan.json")["epsilon"])}</dd>' in page
    assert '<dd class="">1e-05</dd>' in page
    assert f"each {'user' if setting.unit == 'user' else 'record'}" in page
    assert "Metrics of the private holdout are left out" in page
    said = re.sub("<[^>]*>", " ", page)
    assert "0.1235" not in said
    assert "0.12345" not in said


@each(PREDICTING)
def test_a_loaded_model_predicts_as_the_run_has_scored_it(desk: Desk) -> None:
    run = desk.run()
    with inside(desk.folder):
        spec = desk.spec()
        model = dppipe.load_model(run.path)
        splits = spec.data.splits(seed=spec.seed)
        scored = score_split(model, splits.val, spec, prefix="val/")  # type: ignore[arg-type]
        assert run.json("summary.json")["metrics"] == pytest.approx(scored)
        raw = torch.stack([torch.as_tensor(splits.val[place][0]) for place in range(8)])
        predicted = Predictor.open(run.path).outputs(raw)
        torch.testing.assert_close(predicted, model(raw).reshape(len(raw), -1).detach())
        assert set(model.state_dict()) == set(run.weights())
        assert set(untrained_module(spec).state_dict()) == set(run.weights())
    said = desk.dppipe("evaluate", str(run.path))
    assert "test/" in said
    summary = run.json("summary.json")
    assert summary["evaluations"] == 1
    tested = score_split(model, splits.test, spec, prefix="test/")  # type: ignore[arg-type]
    assert summary["test"] == pytest.approx(tested)
    assert verify_ledger(run.path).intact


@each([setting for setting in USUAL if not setting.case.predicts])
def test_a_model_that_does_not_predict_says_so(desk: Desk, finished: Any) -> None:
    run: Ran = finished(desk.setting)
    fill_stage(desk.setting.case.task, desk.setting.records())
    said = desk.dppipe("evaluate", str(run.path), code=2)
    assert "which makes no predictions" in said
    assert run.json("summary.json")["metrics"] == {}


@each(USUAL)
def test_a_run_without_a_budget_is_not_private_and_says_so(desk: Desk) -> None:
    if desk.setting.case.kind == "search":
        pytest.skip("a gate that charges nothing covers nothing")
    run = desk.run("budget=none")
    assert "NOT PRIVATE" in (run.path / "privacy.md").read_text()
    summary = run.json("summary.json")
    assert summary["epsilon"] is None
    assert summary["charged"] == 0
    assert not (run.path / "ledger.jsonl").exists() or not run.rows
    assert run.trace.draws == []
    again = desk.run("budget=none", name="again")
    for name, weight in run.weights().items():
        assert torch.equal(weight, again.weights()[name])


@each(USUAL)
def test_a_shared_budget_is_charged_in_full_until_a_run_does_not_fit(desk: Desk) -> None:
    epsilon = str(1.5 * desk.setting.case.epsilon)
    terms = ("--epsilon", epsilon, "--delta", "1.5e-5", "--like", "spec.yaml")
    desk.plan()
    desk.dppipe("budget", "create", "clinic", *terms)
    admitted = 0
    while (run := desk.run("budget.scope=clinic", name=f"run{admitted}", code=None)).path.exists():
        assert run.exit_code == 0, run.output
        admitted += 1
        status = json.loads(desk.dppipe("budget", "show", "clinic", "--json"))
        assert {entry["state"] for entry in status["runs"]} == {"settled"}
        spent = [entry["epsilon"] for entry in status["runs"]]
        assert spent == [run.rows[-1]["epsilon"]] * admitted
        assert status["epsilon_spent"] >= run.rows[-1]["epsilon"]
    assert admitted in (1, 2)  # two certificates of the run's own add up to more
    assert run.exit_code == 3
    said = " ".join(run.output.split())
    assert "budget.scope: 'clinic' has" in said
    assert "What fits: its releases with" in said or "don't fit, whatever their noise" in said
    assert "step" not in said
    assert run.trace.charges == []
    assert run.trace.draws == []
