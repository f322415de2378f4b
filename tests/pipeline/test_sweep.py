"""`dppipe sweep`: nothing starts before all of it is checked and paid for, and no run is made twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.errors import SpecError, UsageError
from dppipe.pipeline.sweep import child, processes
from dppipe.pipeline.sweep.costs import sweep_cost
from dppipe.pipeline.sweep.directory import SweepDirectory
from dppipe.pipeline.sweep.grid import list_points, read_grid
from dppipe.pipeline.sweep.points import plan_runs

ROOT = Path(dppipe.__file__).parents[1]
SPEC = """\
version: 1
name: study
data: {kind: synthetic, size: 200, features: 3, holdout: public, public: true}
model: logistic
optimizer: {kind: sgd, lr: 0.1}
sampler: {kind: poisson, expected_batch_size: 20}
clipping: {kind: flat, max_grad_norm: 1.0}
noise: {kind: constant, noise_multiplier: 4.0}
budget: {epsilon: 1.0, delta: 1.0e-5}
train: {steps: 3}
"""
STUB = """\
import json, os, sys, time
from pathlib import Path
words = sys.argv[1:]
if words[0] == "run":
    run = Path(words[words.index("--run-dir") + 1])
    spec = words[1]
else:
    run = Path(words[1])
    spec = "resumed"
run.mkdir(parents=True, exist_ok=True)
with open(run.parent / "started.txt", "a") as file:
    file.write(f"{run.name} {words[0]}\\n")
(run / "plan.json").write_text(json.dumps({"name": "x", "private": True, "delta": 1e-5}))
(run / "ledger.jsonl").write_text("")
wait = run.parent / "wait"
for _ in range(600):
    if not wait.exists():
        break
    time.sleep(0.05)
code = 1 if (run.parent / f"fail-{run.name}").exists() else 0
if not code:
    facts = {"status": "completed", "epsilon": 1.0, "metrics": {"val/accuracy": 0.5}}
    (run / "summary.json").write_text(json.dumps(facts))
sys.exit(code)
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """Return the path of a small spec; processes of runs are replaced by a quick script."""
    stub = tmp_path / "stub.py"
    stub.write_text(STUB)
    monkeypatch.setattr(processes, "COMMAND", (sys.executable, "-S", str(stub)))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


def sweep(*words):
    return CliRunner().invoke(app, ["sweep", *map(str, words)])


def started(folder: Path) -> list[str]:
    file = folder / "started.txt"
    return sorted(file.read_text().splitlines()) if file.exists() else []


GRID = ("--grid", "optimizer.lr=[0.1, 0.3]", "--seeds", "2", "--run-dir", "out")


def test_a_grid_is_every_combination_and_a_single_value_counts_as_one():
    grid = read_grid(["optimizer.lr=[0.1, 1e-3]", "clipping.kind=flat"])
    assert grid == {"optimizer.lr": [0.1, 0.001], "clipping.kind": ["flat"]}
    assert len(list_points({"a": [1, 2], "b": [1, 2, 3]})) == 6
    assert list_points({}) == [{}]


@pytest.mark.parametrize(
    "text",
    [
        "optimizer.lr",
        "=[1]",
        "optimizer.lr=[]",
        "optimizer.lr=[1, 1]",
        "optimizer.lr=[1",
        "seed=[1, 2]",
        "data.public=[true]",
        "budget.scope=[a, b]",
        "name=[a]",
    ],
)
def test_a_grid_that_says_nothing_sensible_is_an_error_at_its_place(text):
    with pytest.raises(SpecError, match="expected") as found:
        read_grid([text])
    assert f"--grid {text}" in str(found.value)


def test_an_option_that_is_given_twice_is_an_error():
    with pytest.raises(SpecError, match="once"):
        read_grid(["a.b=[1]", "a.b=[2]"])


def test_every_point_is_a_spec_of_its_own_with_its_own_seed(spec):
    runs = plan_runs(spec, {"optimizer.lr": [0.1, 0.3], "budget.epsilon": [1, 2]}, seeds=2)
    found = [(r.spec.optimizer.lr, r.plan.budget_epsilon, r.spec.seed) for r in runs]
    assert len(set(found)) == 8
    assert all(run.plan.epsilon <= run.plan.budget_epsilon for run in runs)


def test_mistakes_of_all_points_are_shown_at_once_and_at_their_place(spec):
    result = sweep(
        spec, "--grid", "optimizer.lr=[0.1, -1]", "--grid", "clipping.nrm=[1]", *GRID[2:]
    )
    assert result.exit_code == 2
    assert "--grid optimizer.lr=-1: optimizer.lr: expected a number > 0" in result.stderr
    assert result.stderr.count("--grid clipping.nrm=1: ") == 1
    assert not Path("out").exists()


def test_a_mistake_of_the_spec_itself_has_its_line(spec):
    spec.write_text(SPEC.replace("logistic", "logistics"))
    result = sweep(spec, *GRID)
    assert result.exit_code == 2
    assert "spec.yaml:4:8" in result.stderr
    assert result.stderr.count("logistics") == 2  # the message and the line, once


def test_two_points_of_one_spec_are_refused(spec):
    with pytest.raises(UsageError, match="differ"):
        plan_runs(spec, {"optimizer.lr": [1, 1.0]}, seeds=1)


def test_private_records_without_a_scope_are_refused_before_anything_is_written(spec):
    result = sweep(spec, *GRID, "--set", "data.public=false")
    assert result.exit_code == 3
    for way in ("data.public", "budget.scope", "dppipe tune"):
        assert way in result.stderr
    assert not Path("out").exists()
    planned = sweep(spec, *GRID, "--set", "data.public=false", "--plan")
    assert planned.exit_code == 0
    assert "NO." in planned.output


def test_one_private_point_is_enough_to_refuse_a_sweep(spec):
    blocks = [
        f"{{kind: synthetic, size: 200, features: {n}, public: {p}}}"
        for n, p in ((3, "true"), (4, "false"))
    ]
    result = sweep(spec, "--grid", f"data=[{', '.join(blocks)}]", "--run-dir", "out")
    assert result.exit_code == 3


def test_a_run_without_noise_on_private_records_is_refused_too(spec):
    result = sweep(spec, *GRID, "--set", "data.public=false", "--set", "budget=none")
    assert result.exit_code == 3


def test_the_cost_of_a_grid_covers_all_runs(spec):
    base = ["data.public=false"]
    one = plan_runs(spec, {}, seeds=1, overrides=base)
    several = plan_runs(spec, {"optimizer.lr": [0.1, 0.3]}, seeds=2, overrides=base)
    single = sweep_cost(one, to_start=one)
    whole = sweep_cost(several, to_start=several)
    assert single.epsilon == pytest.approx(one[0].plan.epsilon, rel=1e-6)
    assert single.epsilon < whole.epsilon <= 4 * one[0].plan.epsilon
    # dp_accounting's own composition of the same steps is no larger.
    from dp_accounting import SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    from dppipe.budgets.commitments import commit
    from dppipe.planning.privacy_plan import run_parts

    theirs = PLDAccountant()
    for run in several:
        for event, count in commit(run.plan, run_parts(run.spec)).steps:
            theirs.compose(SelfComposedDpEvent(event, count))
    assert theirs.get_epsilon(1e-5) <= whole.epsilon * 1.001


def test_a_shared_budget_must_have_room_for_every_run(spec, monkeypatch):
    monkeypatch.setenv("DPPIPE_STORE", "store.db")
    made = CliRunner().invoke(app, ["budget", "create", "b", "--epsilon", "3", "--delta", "1e-4"])
    assert made.exit_code == 0, made.output
    scoped = ("--set", "data.public=false", "--set", "budget.scope=b")
    assert sweep(spec, *scoped, *GRID[:2], "--run-dir", "out").exit_code == 0
    refused = sweep(spec, *scoped, *GRID[:2], "--seeds", "100", "--run-dir", "other")
    assert refused.exit_code == 3
    assert "The first" in refused.stderr
    assert not Path("other").exists()
    assert sweep(spec, *scoped, *GRID[:2], "--run-dir", "out", "--plan", "--json").exit_code == 0


def test_all_runs_are_made_once_and_compared(spec):
    result = sweep(spec, *GRID, "--jobs", "2")
    assert result.exit_code == 0, result.output
    assert started(Path("out")) == [f"00{n} run" for n in (1, 2, 3, 4)]
    assert "0.5000 +- 0.0000" in result.output
    for again in ((spec, *GRID), ("out",)):
        assert sweep(*again).exit_code == 0
    assert len(started(Path("out"))) == 4


def test_what_was_killed_goes_on_where_it_was(spec):
    out = Path("out")
    sweep(spec, *GRID)
    (out / "started.txt").unlink()
    (out / "002" / "summary.json").unlink()  # killed after its ledger was begun
    shutil.rmtree(out / "003")  # killed before it started
    for name in ("ledger.jsonl", "summary.json"):  # killed before it could charge
        (out / "004" / name).unlink()
    assert sweep("out").exit_code == 0
    assert started(out) == ["002 resume", "003 run", "004 run"]


def test_a_run_that_fails_does_not_end_the_others(spec):
    Path("out").mkdir()
    result = sweep(spec, *GRID)
    (Path("out") / "001" / "summary.json").unlink()
    (Path("out") / "fail-001").touch()
    result = sweep("out", "--json")
    assert result.exit_code == 1
    assert "logs/001.txt" in result.stderr
    assert json.loads(result.stdout)["metric"] == "val/accuracy"


def test_another_grid_in_the_same_directory_is_refused(spec):
    sweep(spec, *GRID)
    for words in (("--grid", "optimizer.lr=[0.1]", "--run-dir", "out"), (*GRID, "--seeds", "3")):
        result = sweep(spec, *words)
        assert result.exit_code == 2
        assert "another" in result.stderr
    assert sweep("out", "--grid", "optimizer.lr=[0.1]").exit_code == 2
    Path("out/specs/001.yaml").write_text(SPEC.replace("lr: 0.1", "lr: 0.2"))
    changed = sweep("out")
    assert changed.exit_code == 2
    assert "001.yaml" in changed.stderr


def test_a_directory_of_something_else_is_refused(spec):
    Path("out").mkdir()
    Path("out/mine.txt").write_text("mine")
    assert sweep(spec, *GRID).exit_code == 2
    assert sweep("out").exit_code == 2
    assert [file.name for file in Path("out").iterdir()] == ["mine.txt"]


def test_ctrl_c_stops_every_process_and_the_sweep_goes_on_later(spec):
    out = Path("out")
    wait = out / "wait"

    def interrupt():
        deadline = time.monotonic() + 60
        while len(started(out)) < 2 and time.monotonic() < deadline:
            if (out / "sweep.json").exists():
                wait.touch()
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = sweep(spec, *GRID, "--jobs", "2")
    thread.join()
    assert result.exit_code == 130, result.output
    assert "dppipe sweep out" in result.stderr
    begun = started(out)
    wait.unlink()
    assert sweep("out").exit_code == 0
    finished = [out / f"00{n}" / "summary.json" for n in (1, 2, 3, 4)]
    assert all(file.exists() for file in finished)
    assert len(begun) <= 2


def test_one_sweep_directory_has_one_process_at_a_time(spec):
    from dppipe.pipeline.sweep.directory import holding

    sweep(spec, *GRID)
    with holding(SweepDirectory(Path("out"))):
        result = sweep("out")
    assert result.exit_code == 3
    assert "no other writer" in result.stderr


def test_a_run_stops_when_the_process_of_its_sweep_is_gone(monkeypatch):
    sent = []
    monkeypatch.setattr(child.os, "kill", lambda pid, number: sent.append((pid, number)))
    reading, writing = os.pipe()
    thread = threading.Thread(target=child._follow_the_sweep, args=(reading,))
    thread.start()
    time.sleep(0.05)
    assert not sent
    os.close(writing)
    thread.join(timeout=10)
    os.close(reading)
    assert sent == [(os.getpid(), signal.SIGTERM)]


@pytest.mark.slow
def test_a_sweep_that_is_killed_leaves_no_process_and_can_be_finished(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC.replace("steps: 3", "steps: 3000").replace("4.0}", "auto}"))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "dppipe", "sweep"]
    first = [*command, str(path), "--seeds", "2", "--jobs", "2", "--run-dir", str(out)]
    process = subprocess.Popen(first, cwd=ROOT, stdout=subprocess.DEVNULL)
    ledger = out / "001" / "ledger.jsonl"
    deadline = time.monotonic() + 120
    while not (ledger.exists() and ledger.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    subprocess.run([*command, str(out)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    for run in ("001", "002"):
        summary = json.loads((out / run / "summary.json").read_text())
        assert summary["status"] == "completed"
        rows = (out / run / "ledger.jsonl").read_text().splitlines()
        assert summary["charged"] == len(rows) == 3000
