"""Runs over data with bad records: refused before anything is written, or dropped without a trace."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from private_steps import release_statistics
from torch.utils.data import TensorDataset
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.clipping import Flat
from dppipe.data.base import Splits
from dppipe.data.reading.private_scaling import PrivateScaling
from dppipe.data.reading.users import with_users
from dppipe.data.reading.validity import with_valid
from dppipe.learners.inputs.model_inputs import ModelInputs
from dppipe.learners.inputs.scaling import ScalingStage
from dppipe.noise import Constant
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants import Rdp
from dppipe.privacy.budget import Budget
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.directory import RunDirectory
from dppipe.runs.ledger import Ledger
from dppipe.sampling import FullBatch, User

SPEC = """
version: 1
name: faulty
data:
  kind: csv
  path: d.csv
  records: 200
  numeric: [{column: a}, {column: b}]
  target: {column: y, classes: ["0", "1"]}
  split: {train: 0.5, val: 0.25, test: 0.25}
model: logistic
optimizer: {kind: sgd, lr: 0.5}
sampler: {kind: poisson, sample_rate: 0.1}
noise: {kind: constant, noise_multiplier: 1.0}
accountant: rdp
budget: {epsilon: 8.0, delta: 1.0e-5}
train: {steps: 3, accelerator: cpu}
"""
OWN = """
import torch
class Scans:
    def __init__(self, bad): self.bad = set(bad)
    def __len__(self): return 200
    def __getitem__(self, i):
        if i in self.bad:
            raise OSError("4711-secret")
        return torch.full((2,), i / 200), i % 2
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "s.yaml").write_text(SPEC)
    (tmp_path / "own_scans.py").write_text(OWN)
    yield tmp_path
    sys.modules.pop("own_scans", None)


def write(bad: dict[int, str]) -> None:
    lines = [f"{row / 200},{row % 7},{row % 2}" for row in range(200)]
    for row, line in bad.items():
        lines[row] = line
    Path("d.csv").write_text("a,b,y\n" + "\n".join(lines) + "\n")


def command(*words: str, changes: tuple[str, ...] = ()) -> tuple[int, str]:
    done = CliRunner().invoke(
        app, [*words, *(word for change in changes for word in ("--set", change))]
    )
    return done.exit_code, " ".join(done.output.split())


def test_a_refused_record_stops_the_run_before_anything_is_written(here: Path) -> None:
    write({120: "4711-secret,1,1"})
    code, output = command("run", "s.yaml", "--run-dir", "r")
    assert code == 2
    assert "d.csv: line 122, column 1 (a): expected a number, got another text" in output
    assert "This reveals something about a private record" in output
    assert "4711" not in output
    assert not Path("r").exists()


def test_dropped_records_are_not_told_and_change_no_count(here: Path) -> None:
    said, plans = [], []
    for name, bad in (
        ("whole", {}),
        ("broken", {7: "x", 50: "1,2,3", 51: ",1,1", 120: "4711-secret,1,1", 199: "nan,1,0"}),
    ):
        write(bad)
        code, output = command(
            "run", "s.yaml", "--run-dir", name, changes=("data.on_bad_record=drop",)
        )
        assert code == 0, output
        plans.append(Path(name, "plan.json").read_bytes())
        summary = json.loads(Path(name, "summary.json").read_text())
        assert summary["status"] == "completed"
        words = re.sub(r"[\d.]+/s", "SPEED", output.replace(name, "")).split()
        said.append(
            [word for word in words if not word.replace(".", "").isdecimal()]
        )  # scores and seconds differ
        assert command("evaluate", name)[0] == 0
    assert plans[0] == plans[1]
    assert said[0] == said[1]


def test_bad_records_of_the_holdout_of_a_class_of_ones_own_end_neither_validation_nor_evaluation(
    here: Path,
) -> None:
    from dppipe.data import ClassPathData

    stated = "input_shape: [2], outputs: 1, task: binary, records: 200, split: {train: 0.5, val: 0.25, test: 0.25}"
    options = {
        "input_shape": [2],
        "outputs": 1,
        "task": "binary",
        "split": {"train": 0.5, "val": 0.25, "test": 0.25},
    }
    whole = ClassPathData.from_data(
        {"class_path": "own_scans.Scans", "init_args": {"bad": []}, **options}
    ).splits(seed=0)
    bad = [whole.val.indices[3], *whole.test.indices[:2]]  # type: ignore[union-attr]
    data = f"data={{kind: class_path, class_path: own_scans.Scans, init_args: {{bad: {bad}}}, {stated}}}"
    code, output = command("run", "s.yaml", "--run-dir", "r", changes=(data,))
    assert code == 0, output
    code, scored = command("evaluate", "r")
    assert code == 0, scored
    assert "4711" not in output + scored
    code, output = command(
        "run", "s.yaml", "--run-dir", "q", changes=(data, "data.on_bad_record=refuse")
    )
    assert code == 2
    assert (
        f"dataset[{min(bad)}]: expected a record that can be read, got OSError at own_scans.py:8"
        in output
    )
    assert not Path("q").exists()


def test_a_stated_number_of_users_is_refused_under_add_remove_for_a_class_of_ones_own(
    here: Path,
) -> None:
    stated = "input_shape: [2], outputs: 1, task: binary"
    data = f"data={{kind: class_path, class_path: own_scans.Scans, init_args: {{bad: []}}, {stated}, users: 10}}"
    secret = (
        "budget.relation=add_remove",
        "sampler={kind: user, sample_rate: 0.1, expected_batch_size: 2}",
    )
    code, output = command("validate", "s.yaml", changes=(data, *secret))
    assert code == 2
    assert "the number of users is secret: leave it out" in output
    named = data.replace("users: 10", "user: bad")
    code, output = command("validate", "s.yaml", changes=(named, *secret))
    assert code == 0, output


@pytest.mark.parametrize("unit", ["example", "user"])
def test_dropped_records_give_nothing_to_private_statistics(
    tmp_path: Path, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        GaussianStream, "add_", lambda self, flat, *, std, over: None
    )  # the sums themselves
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(30, 4, generator=generator)
    owners, valid = numpy.arange(30) // 3, numpy.arange(30) % 5 != 0
    changed = inputs.clone()
    changed[torch.from_numpy(~valid)] = 1000.0
    sampler = User(sample_rate=0.5) if unit == "user" else FullBatch()
    budget = Budget(epsilon=50.0, delta=1e-5)
    scaling = PrivateScaling(noise_multiplier=5.0)
    parts = PrivateParts(
        sampler, Flat(), Constant(noise_multiplier=5.0), Rdp(), budget, preludes=(scaling,)
    )
    plan = plan_privacy(parts, name="t", records=10 if unit == "user" else 30, steps=2)
    found: list[Any] = []
    for number, (rows, marks) in enumerate(((inputs, valid), (changed, valid), (inputs, None))):
        train = with_users(TensorDataset(rows.clone()), owners)
        if marks is not None:
            with_valid(train, marks)
        run = RunDirectory.create("t", run_dir=tmp_path / str(number))
        run.plan.write_bytes(plan.to_json())
        ledger = Ledger.create(run.ledger, plan=plan.to_json())
        data = ModelInputs([ScalingStage(scaling)], Splits(train, None, None))
        found.append(release_statistics(data, parts, plan, ledger, run, seed=0))
    assert found[0] == found[1]
    assert found[0] != found[2]
