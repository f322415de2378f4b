"""Runs under add_remove: the split is by a hash of each record, from the run to its evaluation and its resumption."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.data import Csv
from dppipe.data.base import Data, Splits
from dppipe.lightning.callback import DPCallback
from dppipe.pipeline import evaluate as evaluation
from dppipe.planning.step_plan import StepPlan
from dppipe.runs.record import RunRecord

SPEC = """
version: 1
name: secret_count
data: {kind: csv, path: d.csv, numeric: [{column: a}], target: {column: y, classes: ["0", "1"]}}
model: logistic
optimizer: {kind: sgd, lr: 0.5}
sampler: {kind: poisson, sample_rate: 0.05, expected_batch_size: 20}
noise: {kind: constant, noise_multiplier: 1.0}
accountant: rdp
budget: {epsilon: 8.0, delta: 1.0e-5, relation: add_remove}
train: {steps: 12, accelerator: cpu, validate_every: 3, checkpoint_every: 3}
"""
RECORDS = 800


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SPEC)
    write_data(range(RECORDS))
    return tmp_path


def write_data(rows: Any) -> None:
    Path("d.csv").write_text("a,y\n" + "".join(f"{row},{row % 2}\n" for row in rows))


def command(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words])
    return done.exit_code, done.output


@pytest.fixture
def trained_on(monkeypatch: pytest.MonkeyPatch) -> list[set[float]]:
    """Collect the records that each fit of this test is given to train on."""
    seen: list[set[float]] = []
    make = DPCallback.loader

    def note(self: DPCallback, dataset: TensorDataset, **options: Any) -> Any:
        seen.append(set(dataset.tensors[0][:, 0].tolist()))
        return make(self, dataset, **options)

    monkeypatch.setattr(DPCallback, "loader", note)
    return seen


def test_a_run_without_one_record_trains_on_all_the_others(
    here: Path, trained_on: list[set[float]]
) -> None:
    code, output = command("run", "s.yaml", "--run-dir", "whole")
    assert code == 0, output
    assert StepPlan.from_json(Path("whole/plan.json").read_bytes()).split == "hash"
    gone = min(trained_on[0])
    write_data(row for row in range(RECORDS) if row != gone)
    assert command("run", "s.yaml", "--run-dir", "less")[0] == 0
    assert trained_on[0] - trained_on[1] == {gone}
    assert trained_on[1] < trained_on[0]
    assert 0.7 * RECORDS < len(trained_on[0]) < 0.9 * RECORDS  # 7 deviations: the seed is fixed


def test_evaluation_scores_the_records_that_the_run_left_out(
    here: Path, trained_on: list[set[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("run", "s.yaml", "--run-dir", "r")[0] == 0
    scored: list[set[float]] = []
    make: Callable[[Any], Any] = evaluation.scoring_loader

    def note(dataset: TensorDataset, **options: Any) -> Any:
        scored.append(set(dataset.tensors[0][:, 0].tolist()))
        return make(dataset, **options)

    monkeypatch.setattr(evaluation, "scoring_loader", note)
    code, output = command("evaluate", "r")
    assert code == 0, output
    splits = reread(here)
    assert scored == [splits["test"]]
    assert trained_on == [splits["train"]]


def reread(here: Path) -> dict[str, set[float]]:
    from dppipe.spec.load import load_spec

    data: Data = load_spec(here / "s.yaml").data
    assert isinstance(data, Csv)
    splits = data.splits(seed=0, by="hash")
    return {
        name: set(part.tensors[0][:, 0].tolist())  # type: ignore[attr-defined]
        for name, part in zip(splits._fields, splits, strict=True)
    }


@pytest.fixture
def interrupted(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    finish = RunRecord.step

    def then_signal(record: RunRecord, **facts: Any) -> None:
        finish(record, **facts)
        if record.ledger.rows == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_signal)
        code, output = command("run", "s.yaml", "--run-dir", "r")
    assert code == 143, output
    return here / "r"


def test_a_resumed_run_goes_on_with_the_same_split(
    interrupted: Path, trained_on: list[set[float]]
) -> None:
    code, output = command("resume", "r")
    assert code == 0, output
    assert trained_on == [reread(interrupted.parent)["train"]]


def test_a_run_that_was_begun_with_the_split_by_position_is_not_resumed(interrupted: Path) -> None:
    plan = json.loads((interrupted / "plan.json").read_text())
    del plan["split"]
    (interrupted / "plan.json").write_text(json.dumps(plan, indent=2) + "\n")
    before = (interrupted / "ledger.jsonl").read_bytes()
    code, output = command("resume", "r")
    assert code == 3
    words = " ".join(output.split())
    assert (
        "expected a split by a hash of each record under add_remove, got one by position" in words
    )
    assert "Start a new run" in words
    assert (interrupted / "ledger.jsonl").read_bytes() == before


def test_a_plan_of_an_earlier_version_is_read_as_one_by_position(here: Path) -> None:
    assert command("run", "s.yaml", "--run-dir", "r")[0] == 0
    plan = json.loads((here / "r" / "plan.json").read_text())
    del plan["split"]
    assert StepPlan.from_json(json.dumps(plan)).split == "position"


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_other_relations_split_by_position(here: Path, relation: str) -> None:
    words = [
        "--set",
        f"budget.relation={relation}",
        "--set",
        "sampler={kind: poisson, sample_rate: 0.05}",
    ]
    words += ["--set", f"data.records={RECORDS}", "--set", "accountant=pld"]
    code, output = command("run", "s.yaml", "--run-dir", "r", *words)
    assert code == 0, output
    assert StepPlan.from_json(Path("r/plan.json").read_bytes()).split == "position"


def test_no_file_of_a_run_counts_its_records(here: Path) -> None:
    """One record more or less in the data file, or a second batch of validation, can't be seen but in nonprivate metrics."""
    checkpoints, origins = [], []
    for name, records in (("small", 900), ("large", 30_000)):
        write_data(range(records))
        os.utime("d.csv", ns=(0, 10**18))
        assert command("run", "s.yaml", "--run-dir", name)[0] == 0
        checkpoints.append(
            torch.load(here / name / "checkpoints" / "last.ckpt", weights_only=True)["loops"]
        )
        origins.append(json.loads((here / name / "origin.json").read_text())["data"])
    assert checkpoints[0] == checkpoints[1]
    assert origins[0] == origins[1]


@pytest.mark.parametrize("part", [0, 1, 2], ids=["train", "val", "test"])
@pytest.mark.parametrize("users", [False, True], ids=["record", "user"])
def test_one_record_or_user_trains_whatever_part_it_falls_into(
    here: Path, part: int, users: bool
) -> None:
    words = USERS if users else []
    if users:
        write_users([0])
    else:
        write_data([0])
    seed = next(seed for seed in range(200) if len(one_record(seed, users=users)[part]))
    code, output = command("run", "s.yaml", "--run-dir", "r", *words, "--set", f"seed={seed}")
    assert code == 0, output
    assert json.loads((here / "r" / "summary.json").read_text())["steps"] == 12
    assert command("evaluate", "r")[0] == 0


def one_record(seed: int, *, users: bool) -> Splits:
    options = {
        "path": "d.csv",
        "numeric": [{"column": "a"}],
        "target": {"column": "y", "classes": ["0", "1"]},
    }
    return Csv.from_data(options | ({"user": "who"} if users else {})).splits(seed=seed, by="hash")


USERS = [
    "--set",
    "data.user=who",
    "--set",
    "sampler={kind: user, sample_rate: 0.1, expected_batch_size: 20}",
]


def write_users(users: Any) -> None:
    rows = "".join(
        f"{1000 * record + user},{record % 2},{user:x}\n" for record in range(4) for user in users
    )
    Path("d.csv").write_text("a,y,who\n" + rows)


def test_a_run_without_one_user_trains_on_all_the_others(
    here: Path, trained_on: list[set[float]]
) -> None:
    write_users(range(300))
    code, output = command("run", "s.yaml", "--run-dir", "whole", *USERS)
    assert code == 0, output
    gone = int(min(trained_on[0]))
    write_users([user for user in range(300) if user != gone])
    assert command("run", "s.yaml", "--run-dir", "less", *USERS)[0] == 0
    assert trained_on[0] - trained_on[1] == {float(1000 * record + gone) for record in range(4)}
    assert trained_on[1] < trained_on[0]
