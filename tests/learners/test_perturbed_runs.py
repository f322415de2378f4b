"""Whole runs of perturbed learners: the noise that was charged is the noise that is there."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gates import Opened
from learners.perturbed import exact_gradient
from scipy import stats
from torch.utils.data import TensorDataset
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.learners.gating.bounded import Bounded
from dppipe.learners.job import Job
from dppipe.learners.records.training_records import TrainingRecords
from dppipe.pipeline.learn import untrained_module
from dppipe.privacy.events.plain import event_from_data
from dppipe.runs.verify import verify_ledger
from dppipe.spec.load import load_spec

SPEC = """
version: 1
name: perturbed
data: {kind: npz, path: DATA, classes: 2, records: 300, holdout: public, split: {train: 1.0, val: 0.0, test: 0.0}}
model: logistic
learner: {kind: KIND, max_norm: 2.0, scale: unit, regularization: 3.0}
budget: {epsilon: 1.0, delta: 1.0e-5}
"""
WIDTH = 40


def write_spec(folder: Path, kind: str, *, classes: int = 2) -> Path:
    generator = np.random.default_rng(1)
    inputs = generator.normal(size=(300, WIDTH)).astype(np.float32)
    labels = (inputs[:, 0] > 0).astype(np.int64) + (classes > 2) * (inputs[:, 1] > 0)
    np.savez(folder / "records.npz", x=inputs, y=labels)
    text = SPEC.replace("DATA", str(folder / "records.npz")).replace("KIND", kind)
    (folder / "spec.yaml").write_text(text.replace("classes: 2", f"classes: {classes}"))
    return folder / "spec.yaml"


def dppipe(*words: str) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


class Run:
    """A finished run, with what was let out and the rows that it came from."""

    def __init__(self, path: Path, *changes: str) -> None:
        self.directory = path.parent / "run"
        words = [word for change in changes for word in ("--set", change)]
        done = dppipe("run", str(path), "--run-dir", str(self.directory), *words)
        assert done.exit_code == 0, done.output
        self.spec = load_spec(path, overrides=list(changes))
        self.learner: Any = self.spec.learner
        self.facts = self.spec.public_facts()
        self.constants = self.learner.constants(self.facts)
        (self.row,) = map(json.loads, (self.directory / "ledger.jsonl").read_text().splitlines())
        saved = torch.load(self.directory / "released" / "0001.pt", weights_only=True)
        self.released = saved["value"]
        with np.load(path.parent / "records.npz") as arrays:
            numbers = [torch.from_numpy(arrays[name]) for name in ("x", "y")]
        self.dataset = TensorDataset(*numbers)

    def job(self) -> Job:
        records = TrainingRecords(self.dataset, by_users=False, may_read=lambda: True)
        return Job(self.facts, untrained_module(self.spec), records, self.directory)


def is_likely(square: float, size: int) -> bool:
    """Whether a sum of squared normal values is usual: a false alarm in 10^9 runs."""
    return bool(stats.chi2.ppf(5e-10, size) < square < stats.chi2.isf(5e-10, size))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_noise_in_an_objective_is_as_large_as_was_charged(tmp_path: Path, classes: int) -> None:
    # At the released weights, the gradient without noise is minus the noise.
    run = Run(write_spec(tmp_path, "objective_perturbation", classes=classes))
    inside, later = run.row["event"]["events"]
    kind = "LogisticObjectiveDpEvent" if classes == 2 else "SoftmaxObjectiveDpEvent"
    assert inside["type"] == kind
    assert inside["leverage"] == pytest.approx(4 / 3)
    z = inside["noise_multiplier"]
    assert later == {"type": "GaussianDpEvent", "noise_multiplier": 100 * z}
    rows = run.learner.rows(run.job(), None)
    nothing = torch.zeros_like(run.released)
    gradient = exact_gradient(
        rows, run.constants, run.released, regularization=3.0, noise=nothing
    ).astype(float)
    length = 2.0 if classes == 2 else 2.0 * math.sqrt(2)
    assert is_likely(float((gradient**2).sum()) / (z * length) ** 2, len(gradient))
    assert verify_ledger(run.directory).intact


@pytest.mark.parametrize("mechanism", ["gaussian", "pure"])
def test_the_noise_on_a_solution_is_as_large_as_was_charged(tmp_path: Path, mechanism: str) -> None:
    path = write_spec(tmp_path, "output_perturbation")
    run = Run(path, f"learner.mechanism={mechanism}")
    nothing = torch.zeros_like(run.released)
    exact = run.learner.solve(run.job(), None, regularization=3.0, tolerance=1e-8, noise=nothing)
    scale = run.row["event"]["noise_multiplier"] * 2.0 / 3.0
    length = float(torch.linalg.vector_norm(run.released - exact)) / scale
    if mechanism == "gaussian":
        assert is_likely(length**2, WIDTH + 1)
    else:  # twice a sum of exponential values is one of squares
        assert is_likely(2 * length, 2 * (WIDTH + 1))


def test_a_pure_objective_charges_determinant_and_noise(tmp_path: Path) -> None:
    path = write_spec(tmp_path, "objective_perturbation")
    run = Run(path, "learner.mechanism=pure", "accountant=basic")
    inside, later = run.row["event"]["events"]
    assert inside["log_determinant"] == pytest.approx(math.log1p(2.0**2 / 4 / 3.0))
    z = inside["noise_multiplier"]
    assert later["noise_multiplier"] == pytest.approx(1000 * z)
    assert 1 / z + 0.001 / z + inside["log_determinant"] == pytest.approx(1.0, abs=1e-4)
    rows = run.learner.rows(run.job(), None)
    nothing = torch.zeros_like(run.released)
    noise = exact_gradient(rows, run.constants, run.released, regularization=3.0, noise=nothing)
    length = float(np.sqrt((noise**2).sum())) / (2 * z)
    assert is_likely(2 * length, 2 * len(noise))
    found = verify_ledger(run.directory)
    assert found.intact
    assert found.epsilon == pytest.approx(1.0, abs=1e-4)


def test_noise_is_drawn_after_the_charge_and_once_for_objective_and_solution(
    tmp_path: Path,
) -> None:
    logistic = {"type": "LogisticObjectiveDpEvent", "noise_multiplier": 2.0, "leverage": 0.1}
    after = {"type": "GaussianDpEvent", "noise_multiplier": 200.0}
    event = event_from_data({"type": "ComposedDpEvent", "events": [logistic, after]})
    opened = Opened(tmp_path, event)
    solved: list[list[float]] = []

    def solve(noise: Any) -> Bounded:
        solved.append(noise.tolist())
        return Bounded(torch.tensor([1.0, 2.0]), 1e-6)

    release = opened.gate.next()
    assert release is not None
    opened.gate.perturb(release, solve, size=2, sensitivity=3.0)
    assert opened.noise.asked == [
        ([0.0, 0.0], pytest.approx(6.0), 1.0),
        ([1.0, 2.0], pytest.approx(200e-6), 1.0),
    ]
    assert opened.noise.rows == [1, 1]
    assert solved == [[0.0, 0.0]]


def test_the_solution_of_an_objective_is_noised_by_what_the_tolerance_may_hide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dppipe.randomness.gaussian import GaussianStream

    asked: list[float] = []
    usual = GaussianStream.add_

    def noted(self: Any, flat: Any, std: float, **others: Any) -> Any:
        asked.append(std)
        return usual(self, flat, std, **others)

    monkeypatch.setattr(GaussianStream, "add_", noted)
    path = write_spec(tmp_path, "objective_perturbation")
    run = Run(path, "learner.tolerance=1e-3")
    z = run.row["event"]["events"][0]["noise_multiplier"]
    assert asked == [pytest.approx(2 * z), pytest.approx(200 * z * 1e-3 / 3.0)]
    assert asked[1] >= 200 * z * 1e-3 / 3.0


REFUSED = [
    (["budget.relation=replace_one"], "budget.relation: expected zero_out or add_remove"),
    (["learner.regularization=0.01"], "learner.regularization: expected more than 0.582"),
    (["learner.loss=softmax"], "learner.loss: expected logistic or hinge for a binary task"),
    (["model=mlp"], "model.trainable: expected the name of the last layer"),
    (["sampler=poisson"], "sampler"),
    (["accountant=zcdp"], "the determinant of the Hessian adds to the loss"),
    (["learner.tolerance=1e-16"], "learner.tolerance: expected at least"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_the_proof_does_not_cover_is_refused_by_the_plan(
    tmp_path: Path, changes: list[str], message: str
) -> None:
    path = write_spec(tmp_path, "objective_perturbation")
    words = [word for change in changes for word in ("--set", change)]
    done = dppipe("plan", str(path), *words)
    assert done.exit_code in (2, 3), done.output
    assert message in " ".join(done.output.split())


def test_output_perturbation_covers_replaced_records_at_twice_the_noise(tmp_path: Path) -> None:
    path = write_spec(tmp_path, "output_perturbation")
    found: list[float] = []
    for relation in ("zero_out", "replace_one"):
        done = dppipe("plan", str(path), "--set", f"budget.relation={relation}", "--json")
        assert done.exit_code == 0, done.output
        (release,) = json.loads(done.output)["releases"]
        found.append(release["event"]["noise_multiplier"])
    assert found[1] == pytest.approx(2 * found[0], rel=1e-3)


def expect_quick_plan(path: Path) -> None:
    """Expect that a spec is planned without torch, in less than three seconds of computing."""
    code = (
        "import sys, time\n"
        "start = time.process_time()\n"
        "from typer.testing import CliRunner\n"
        "from dppipe.cli.app import app\n"
        f"done = CliRunner().invoke(app, ['plan', {str(path)!r}])\n"
        "print(done.exit_code, 'torch' in sys.modules, time.process_time() - start)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    exit_code, has_torch, seconds = done.stdout.split()
    assert (exit_code, has_torch) == ("0", "False")
    assert float(seconds) < 3


@pytest.mark.parametrize("kind", ["objective_perturbation", "output_perturbation"])
def test_a_plan_needs_no_torch_and_takes_less_than_three_seconds(tmp_path: Path, kind: str) -> None:
    expect_quick_plan(write_spec(tmp_path, kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["objective_perturbation", "output_perturbation"])
def test_its_recipe_runs_within_its_budget_and_learns(tmp_path: Path, kind: str) -> None:
    recipe = Path(__file__).parents[2] / "pipelines" / "learners" / f"{kind}.yaml"
    run = tmp_path / "run"
    done = dppipe("run", str(recipe), "--run-dir", str(run))
    assert done.exit_code == 0, done.output
    summary = json.loads((run / "summary.json").read_text())
    budget = json.loads((run / "plan.json").read_text())["budget_epsilon"]
    assert 0.9 * budget < summary["epsilon"] <= budget
    assert summary["certified"]
    assert summary["metrics"]["val/accuracy"] > 0.7
    assert verify_ledger(run).intact
