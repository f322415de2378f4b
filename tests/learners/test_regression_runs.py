"""Whole runs of linear regression: one charge, the noise that was charged, and models that predict."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learners.test_perturbed_runs import dppipe, is_likely
from torch.utils.data import TensorDataset

import dppipe as package
from dppipe.learners.job import Job
from dppipe.learners.records.training_records import TrainingRecords
from dppipe.learners.regression import moments
from dppipe.learners.regression.moments import stack
from dppipe.pipeline.learn import untrained_module
from dppipe.runs.verify import verify_ledger
from dppipe.spec.load import load_spec

SPEC = """
version: 1
name: regressed
data: {kind: npz, path: DATA, holdout: public, split: {train: 1.0, val: 0.0, test: 0.0}}
model: logistic
learner: {kind: linear_regression, max_norm: 2.0, target_bound: 3.0}
budget: {epsilon: 1.0, delta: 1.0e-5}
"""
WIDTH = 20
RECIPE = Path(package.__file__).parents[1] / "pipelines" / "learners" / "linear_regression.yaml"


def write_records(folder: Path, *, outputs: int = 1, classes: int = 0, count: int = 300) -> None:
    generator = np.random.default_rng(1)
    inputs = generator.normal(size=(count, WIDTH)).astype(np.float32)
    rule = np.array([[1.0, -0.5, 0.0, 0.25, 0.0], [0.0, 0.5, 1.0, 0.0, -1.0], [-1.0, 0, -1, 0, 1]])
    scores = inputs[:, :5] @ rule.T
    targets: Any = (0.5 + scores[:, :outputs]).astype(np.float32)
    if classes == 2:
        targets = (scores[:, 0] > 0).astype(np.int64)
    elif classes:
        targets = scores[:, :classes].argmax(1).astype(np.int64)
    users = np.arange(count) // 3
    np.savez(folder / "records.npz", x=inputs, y=targets, owner=users)


def write_spec(folder: Path, **records: int) -> Path:
    write_records(folder, **records)
    text = SPEC.replace("DATA", str(folder / "records.npz"))
    classes = records.get("classes")
    if classes:
        text = text.replace("{kind: npz,", f"{{kind: npz, classes: {classes},")
        text = text.replace(", target_bound: 3.0", "")
    (folder / "spec.yaml").write_text(text)
    return folder / "spec.yaml"


def words_of(changes: tuple[str, ...] | list[str]) -> list[str]:
    return [word for change in changes for word in ("--set", change)]


class Run:
    """A finished run, with what was let out."""

    def __init__(self, path: Path, *changes: str) -> None:
        self.directory = path.parent / "run"
        done = dppipe("run", str(path), "--run-dir", str(self.directory), *words_of(changes))
        assert done.exit_code == 0, done.output
        self.spec = load_spec(path, overrides=list(changes))
        self.learner: Any = self.spec.learner
        self.facts = self.spec.public_facts()
        with np.load(path.parent / "records.npz") as arrays:
            self.inputs, self.targets = (torch.from_numpy(arrays[name]) for name in ("x", "y"))

    @property
    def row(self) -> Any:
        (row,) = map(json.loads, (self.directory / "ledger.jsonl").read_text().splitlines())
        return row

    def released(self) -> torch.Tensor:
        saved = torch.load(self.directory / "released" / "0001.pt", weights_only=True)
        found: torch.Tensor = saved["value"]
        return found

    def exact(self) -> torch.Tensor:
        dataset = TensorDataset(self.inputs, self.targets)
        records = TrainingRecords(dataset, by_users=False, may_read=lambda: True)
        job = Job(self.facts, untrained_module(self.spec), records, self.directory)
        return stack(self.learner.moments(job, self.learner.features(job)))

    def outputs(self) -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = package.load_model(self.directory)(self.inputs)
        return found


@pytest.mark.parametrize(("method", "blocks"), [("joint", 2), ("adassp", 3)])
def test_the_noise_on_the_sums_is_as_large_as_was_charged(
    tmp_path: Path, method: str, blocks: int
) -> None:
    run = Run(write_spec(tmp_path, outputs=2), f"learner.method={method}")
    assert run.row["what"] == "moments"
    assert run.row["event"]["type"] == "GaussianDpEvent"
    std = run.row["event"]["noise_multiplier"] * math.sqrt(blocks) * 2.0**2
    off = (run.released() - run.exact()) / std
    assert len(off) == 21 + 210 + 42 + (method == "adassp")
    assert is_likely(float((off**2).sum()), len(off))
    found = verify_ledger(run.directory)
    assert found.intact
    assert found.charged == 1


def test_the_model_is_what_follows_from_the_released_sums(tmp_path: Path) -> None:
    run = Run(write_spec(tmp_path, outputs=2))
    noisy = moments.unstack(run.released(), width=WIDTH + 1, outputs=2)
    std = run.row["event"]["noise_multiplier"] * run.learner.sensitivity(run.facts)
    weights = run.learner.solve(noisy, run.facts, noise_std=std)
    layer = package.load_model(run.directory)[1]
    assert torch.allclose(
        layer.weight.double() * math.sqrt(2), weights[:, :WIDTH], atol=1e-6, rtol=1e-5
    )
    assert torch.allclose(layer.bias.double(), weights[:, -1] * math.sqrt(2), atol=1e-6, rtol=1e-5)


GENEROUS = ["budget.epsilon=1e6", "learner.max_norm=8.0", "accountant=zcdp"]


def test_a_regression_without_a_budget_is_least_squares(tmp_path: Path) -> None:
    run = Run(write_spec(tmp_path), "budget=none", "learner.max_norm=8.0", "learner.target_bound=9")
    assert run.outputs().numpy() == pytest.approx(run.targets.numpy(), abs=1e-4)
    assert "NOT PRIVATE" in (run.directory / "privacy.md").read_text()


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace_one"])
def test_every_relation_trains_a_regression_of_two_outputs(tmp_path: Path, relation: str) -> None:
    changes = [*GENEROUS, "learner.target_bound=9", f"budget.relation={relation}"]
    run = Run(write_spec(tmp_path, outputs=2), *changes)
    assert run.row["relation"] == relation
    squares = (run.outputs() - run.targets) ** 2
    assert float(squares.mean()) < 0.05 * float(run.targets.var())


def test_users_train_by_the_mean_of_their_records(tmp_path: Path) -> None:
    changes = [*GENEROUS, "learner.target_bound=9", "budget.unit=user"]
    changes += ["data.user=owner", "data.users=100"]
    run = Run(write_spec(tmp_path), *changes)
    assert run.row["unit"] == "user"
    # The noise is a thousandth of the sum at this epsilon: seven of its deviations, one in 10^11.
    alone = run.exact()[0] / 3
    assert float(run.released()[0]) == pytest.approx(float(alone), rel=0.01)


def test_two_classes_are_told_by_the_sign_and_three_by_the_largest_output(tmp_path: Path) -> None:
    for classes in (2, 3):
        folder = tmp_path / str(classes)
        folder.mkdir()
        run = Run(
            write_spec(folder, classes=classes),
            *GENEROUS,
            "data.split.test=0.2",
            "data.split.train=0.8",
        )
        outputs = run.outputs()
        guessed = (outputs[:, 0] > 0).long() if classes == 2 else outputs.argmax(1)
        assert float((guessed == run.targets).float().mean()) > 0.85
        done = dppipe("evaluate", str(run.directory))
        assert done.exit_code == 0, done.output
        assert float(done.output.split("accuracy")[1].split()[0]) > 0.75


def test_the_last_layer_of_a_frozen_network_is_trained(tmp_path: Path) -> None:
    model = "model={kind: mlp, hidden: [64], trainable: ['3.*']}"
    run = Run(write_spec(tmp_path, classes=2), *GENEROUS, model)
    assert float(((run.outputs()[:, 0] > 0) == (run.targets > 0)).float().mean()) > 0.8


def test_a_plan_costs_as_much_whatever_the_number_of_secret_records(tmp_path: Path) -> None:
    plans = []
    for count in (100, 300):
        folder = tmp_path / str(count)
        folder.mkdir()
        path = write_spec(folder, count=count)
        done = dppipe("plan", str(path), "--set", "budget.relation=add_remove", "--json")
        assert done.exit_code == 0, done.output
        plans.append(json.loads(done.output)["releases"])
    assert plans[0] == plans[1]


def test_replaced_records_cost_twice_the_noise(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    found: list[float] = []
    for relation in ("zero_out", "replace_one"):
        done = dppipe("plan", str(path), "--set", f"budget.relation={relation}", "--json")
        (release,) = json.loads(done.output)["releases"]
        found.append(release["event"]["noise_multiplier"])
    assert found[1] == pytest.approx(2 * found[0], rel=1e-3)


REFUSED = [
    ({"classes": 2}, ["learner.target_bound=1.0"], "expected nothing for a binary task"),
    ({}, ["learner={kind: linear_regression}"], "learner.target_bound: expected a bound on the"),
    ({}, ["learner.target_bound=0"], "learner.target_bound: expected"),
    ({}, ["learner.ridge=-1"], "learner.ridge: expected"),
    ({}, ["learner.method=ols"], "learner.method: expected"),
    ({}, ["learner.loss=huber"], "learner.loss"),
    ({}, ["sampler=poisson"], "sampler"),
    ({}, ["model=mlp"], "model.trainable: expected the name of the last layer"),
    ({}, ["learner.noise_multiplier=0.1"], "learner.noise_multiplier: expected releases that cost"),
]


@pytest.mark.parametrize(("records", "changes", "message"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_does_not_apply_is_refused_by_the_plan(
    tmp_path: Path, records: Any, changes: list[str], message: str
) -> None:
    done = dppipe("plan", str(write_spec(tmp_path, **records)), *words_of(changes))
    assert done.exit_code in (2, 3), done.output
    assert message in " ".join(done.output.split())
    assert "Traceback" not in done.output


def test_a_missing_bound_is_named_at_its_line(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    path.write_text(path.read_text().replace(", target_bound: 3.0", ""))
    done = dppipe("run", str(path), "--run-dir", str(tmp_path / "run"))
    assert done.exit_code == 2
    assert "spec.yaml:6:1: learner.target_bound" in "".join(done.output.split("\n"))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_its_recipe_runs_within_its_budget_and_learns(tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = dppipe("run", str(RECIPE), "--run-dir", str(run))
    assert done.exit_code == 0, done.output
    summary = json.loads((run / "summary.json").read_text())
    assert 0.9 < summary["epsilon"] <= 1.0
    assert summary["certified"]
    assert summary["metrics"]["val/r2"] > 0.9
    assert verify_ledger(run).intact
