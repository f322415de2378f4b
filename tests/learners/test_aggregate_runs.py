"""Whole runs of subsample and aggregate: what was charged is what was drawn."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gates import Opened
from learners.test_perturbed_runs import assert_planned_without_torch, dppipe, is_likely

from dppipe.errors import PrivacyRefusal
from dppipe.learners.aggregation.estimates import table_of
from dppipe.learners.gating import medians
from dppipe.learners.job import Job
from dppipe.learners.records.training_records import TrainingRecords
from dppipe.pipeline.learn import untrained_module
from dppipe.pipeline.seeding import seed_weights
from dppipe.privacy.events.mechanisms import exponential, gaussian
from dppipe.runs.ledger import Ledger
from dppipe.runs.verify import verify_ledger
from dppipe.spec.load import load_spec

SPEC = """
version: 1
name: aggregated
data: {kind: npz, path: DATA, classes: 2, holdout: public, split: {train: 0.8, val: 0.2, test: 0.0}}
model: logistic
learner: {kind: subsample_aggregate, blocks: 20, radius: 0.5, inner: {kind: ridge, regularization: 1.0}}
budget: {epsilon: 1.0, delta: 1.0e-5}
"""
WIDTH = 12
SGD = "learner.inner={kind: sgd, epochs: 2, lr: 0.1}"


def write_spec(folder: Path) -> Path:
    generator = np.random.default_rng(1)
    inputs = generator.normal(size=(300, WIDTH)).astype(np.float32)
    labels = (inputs[:, 0] > 0).astype(np.int64)
    users = np.arange(300) % 100
    np.savez(folder / "records.npz", x=inputs, y=labels, u=users)
    (folder / "spec.yaml").write_text(SPEC.replace("DATA", str(folder / "records.npz")))
    return folder / "spec.yaml"


class Run:
    """A finished run, with what was let out and what it would be without noise."""

    def __init__(self, path: Path, *changes: str) -> None:
        self.directory = path.parent / "run"
        words = [word for change in changes for word in ("--set", change)]
        done = dppipe("run", str(path), "--run-dir", str(self.directory), *words)
        assert done.exit_code == 0, done.output
        self.spec = load_spec(path, overrides=list(changes))
        self.learner: Any = self.spec.learner
        self.facts = self.spec.public_facts()
        rows = (self.directory / "ledger.jsonl").read_text().splitlines()
        self.rows = [json.loads(row) for row in rows]
        if self.rows:
            saved = torch.load(self.directory / "released" / "0001.pt", weights_only=True)
            self.released = saved["value"]
        self.train = self.spec.data.splits(
            seed=self.spec.seed, by="hash" if self.facts.relation == "add_remove" else "position"
        ).train

    def job(self) -> Job:
        by_users = self.facts.unit == "user"
        records = TrainingRecords(self.train, by_users=by_users, may_read=lambda: True)
        seed_weights(self.spec.seed)
        return Job(self.facts, untrained_module(self.spec), records, self.directory)


USERS = ["data.user=u", "data.users=100", "budget.unit=user"]


@pytest.mark.parametrize(
    "changes",
    [
        [],
        ["budget.relation=add_remove"],
        ["budget.relation=replace_one", *USERS],
        ["learner.inner={kind: logistic_ridge, regularization: 1.0}", *USERS],
    ],
    ids=["zero_out", "add_remove", "replaced users", "logistic users"],
)
def test_the_noise_on_the_mean_is_as_large_as_was_charged(
    tmp_path: Path, changes: list[str]
) -> None:
    run = Run(write_spec(tmp_path), *changes)
    job = run.job()
    mean = run.learner.bounded_mean(job, run.learner.estimator(job)).value
    (row,) = run.rows
    z = row["event"]["noise_multiplier"]
    doubled = 2 if run.facts.relation == "replace_one" else 1
    std = z / doubled * 2 * 0.5 / 20
    assert row["facts"]["noise_std"] == pytest.approx(std, rel=1e-9)
    assert is_likely(float(((run.released - mean) ** 2).sum()) / std**2, WIDTH + 1)
    found = verify_ledger(run.directory)
    assert found.intact
    assert found.charged == 1
    assert 0.9 < found.epsilon <= 1.0


def test_medians_are_charged_once_for_each_weight(tmp_path: Path) -> None:
    changes = ["learner.aggregate=median", "accountant=zcdp", "budget.epsilon=4"]
    run = Run(write_spec(tmp_path), *changes)
    (row,) = run.rows
    assert row["count"] == WIDTH + 1
    assert row["event"]["type"] == "ExponentialMechanismDpEvent"
    assert float(run.released.abs().max()) < 0.5
    found = verify_ledger(run.directory)
    assert found.intact
    assert found.charged == WIDTH + 1


@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_a_run_without_a_budget_releases_the_plain_aggregate(
    tmp_path: Path, aggregate: str
) -> None:
    run = Run(write_spec(tmp_path), "budget=none", f"learner.aggregate={aggregate}")
    job = run.job()
    table = table_of(job, run.learner.estimator(job), blocks=20)
    if aggregate == "mean":
        shrunk = table * (0.5 / table.norm(dim=1, keepdim=True)).clamp_max(1.0)
        expected = shrunk.mean(0)
    else:
        expected = table.clamp(-0.5, 0.5).quantile(0.5, dim=0)
    weights = torch.load(run.directory / "checkpoints" / "final.ckpt", weights_only=True)
    module = job.module
    run.learner.estimator(job).set_weights(expected)
    for name, value in module.state_dict().items():
        assert torch.allclose(weights[name], value, atol=1e-6)
    assert "NOT PRIVATE" in (run.directory / "privacy.md").read_text()


def test_a_network_of_several_layers_is_trained_and_can_be_loaded(tmp_path: Path) -> None:
    import dppipe as package

    run = Run(write_spec(tmp_path), "model={kind: mlp, hidden: [4]}", SGD, "learner.radius=0.1")
    (row,) = run.rows
    job = run.job()
    estimator = run.learner.estimator(job)
    mean = run.learner.bounded_mean(job, estimator).value
    assert float(mean.norm()) <= 0.1
    assert is_likely(
        float(((run.released - mean) ** 2).sum()) / row["facts"]["noise_std"] ** 2, len(mean)
    )
    loaded = package.load_model(run.directory)
    estimator.set_weights(run.released)
    inputs = torch.randn(5, WIDTH)
    assert torch.allclose(loaded(inputs), job.module.eval()(inputs), atol=1e-5)


REFUSED = [
    (["learner.blocks=1"], "learner.blocks: expected an integer >= 2"),
    (["learner.blocks=241"], "learner.blocks: expected at most 240, one block for each example"),
    (["learner.blocks=81", *USERS], "learner.blocks: expected at most 80, one block for each user"),
    (["learner.radius=auto"], "learner.radius: expected a public constant, such as 2.0"),
    (["learner.radius=0"], "learner.radius: expected a number >= 1e-09"),
    (["learner.inner=forest"], "learner.inner: expected a block whose kind is ridge"),
    (["learner.inner={kind: sgd, steps: 3}"], "learner.inner.steps"),
    (
        ["learner.inner.regularization=0"],
        "learner.inner.regularization: expected a number >= 1e-06",
    ),
    (["learner.coordinates=13"], "learner.coordinates: expected no number with aggregate: mean"),
    (["learner.aggregate=median", SGD], "learner.coordinates: expected the number of weights"),
    (["model=mlp"], "model.trainable: expected the name of the last layer"),
    (["sampler=poisson"], "sampler: expected no sampler"),
    (["noise.noise_multiplier=3"], "noise"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_misuse_is_refused_at_its_place_by_the_plan(
    tmp_path: Path, changes: list[str], message: str
) -> None:
    words = [word for change in changes for word in ("--set", change)]
    done = dppipe("plan", str(write_spec(tmp_path)), *words)
    assert done.exit_code in (2, 3), done.output
    assert message in " ".join(done.output.split())


def test_a_mistake_is_named_with_its_line_and_column(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    path.write_text(path.read_text().replace("radius: 0.5", "radius: fitted"))
    done = dppipe("plan", str(path))
    assert done.exit_code == 2
    assert "spec.yaml:6:58: learner.radius: expected a public" in " ".join(done.output.split())


@pytest.mark.parametrize("changes", [["learner.coordinates=4"], [SGD, "learner.coordinates=4"]])
def test_another_number_of_weights_is_refused_before_anything_is_charged(
    tmp_path: Path, changes: list[str]
) -> None:
    words = [word for change in changes for word in ("--set", change)]
    path = write_spec(tmp_path)
    done = dppipe(
        "run", str(path), "--run-dir", str(tmp_path / "run"), "--set", "learner.aggregate=median",
        *words,
    )  # fmt: skip
    assert done.exit_code != 0
    assert f"learner.coordinates: expected {WIDTH + 1}" in " ".join(done.output.split())
    assert (tmp_path / "run" / "ledger.jsonl").read_bytes() == b""


def test_a_regression_has_no_logistic_estimator(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    path.write_text(path.read_text().replace("classes: 2, ", ""))
    with np.load(tmp_path / "records.npz") as arrays:
        inputs, targets = arrays["x"], arrays["y"].astype(np.float32)
    np.savez(tmp_path / "records.npz", x=inputs, y=targets)
    inner = "learner.inner.kind=logistic_ridge"
    done = dppipe("plan", str(path), "--set", inner)
    assert "learner.inner.kind: expected ridge or sgd" in " ".join(done.output.split())
    assert dppipe("plan", str(path)).exit_code == 0


def test_medians_are_drawn_after_their_row_and_by_another_charge_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Opened(tmp_path, exponential(0.5), exponential(0.5), gaussian(1.0))
    rows: list[int] = []
    usual = medians.select_medians

    def noted(*given: Any, **options: Any) -> Any:
        rows.append(opened.ledger.path.read_bytes().count(b"\n"))
        assert options["epsilon"] == 0.5
        return usual(*given, **options)

    monkeypatch.setattr(medians, "select_medians", noted)
    charge = Ledger.charge

    def slowly(ledger: Ledger, what: Any) -> None:
        time.sleep(0.2)  # a draw that didn't wait would see no row
        charge(ledger, what)

    monkeypatch.setattr(Ledger, "charge", slowly)

    def table() -> torch.Tensor:
        assert opened.gate.computing
        return torch.zeros(7, 1)

    release = opened.gate.next()
    assert release is not None
    with pytest.raises(PrivacyRefusal, match="charged 2 times"):
        opened.gate.medians(release, lambda: torch.zeros(7, 2), columns=2, radius=1.0)
    found = opened.gate.medians(release, table, columns=1, radius=1.0)
    assert abs(float(found)) < 1
    assert rows == [1]
    second = opened.gate.next()
    assert second is not None
    with pytest.raises(PrivacyRefusal, match="a table with 1 columns"):
        opened.gate.medians(second, lambda: torch.zeros(7, 3), columns=1, radius=1.0)
    assert rows == [1]
    third = opened.gate.next()
    assert third is not None
    with pytest.raises(PrivacyRefusal, match="ExponentialMechanismDpEvent"):
        opened.gate.medians(third, table, columns=1, radius=1.0)


def test_a_plan_needs_no_torch_and_takes_less_than_three_seconds(tmp_path: Path) -> None:
    assert_planned_without_torch(write_spec(tmp_path))
