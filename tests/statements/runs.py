"""Small real runs of every kind, each made once: what their statements are read of."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.planning import privacy_plan
from dppipe.runs.record import RunRecord

SPEC = """
version: 1
name: small
seed: 7
data:      {kind: synthetic, size: 400, features: 4, classes: 3}
model:     {kind: logistic}
optimizer: {kind: sgd, lr: 0.5}
sampler:   {kind: poisson, sample_rate: 0.1}
clipping:  {kind: flat, max_grad_norm: 1.0}
noise:     {kind: constant, noise_multiplier: 2.0}
accountant: {kind: rdp}
budget:    {epsilon: 8.0, delta: 1.0e-4}
train:     {steps: 8, validate_every: 4, checkpoint_every: 3}
"""
CSV = (
    "data={kind: csv, path: visits.csv, records: 300, users: 100, user: patient, holdout: private, "
    "numeric: [{column: age, mean: 50, std: 20}], target: {column: ill, classes: [0, 1]}}"
)
USERS = (CSV, "sampler={kind: user, sample_rate: 0.1, max_records_per_user: 2}")
FALLING = "noise={kind: falling, noise_multiplier: 4.0}"
SPECS: dict[str, tuple[str, ...]] = {
    "public": ("data.holdout=public",),
    "private": ("diagnostics=nonprivate", "accountant=pld"),
    "no_holdout": ("data.split={train: 1.0, val: 0, test: 0}",),
    "exhausted": ("train={until: budget}", "noise.noise_multiplier=1.5", "budget.epsilon=1.2"),
    "not_private": ("budget=none",),
    "seeded": ("reproducible=true",),
    "statistics": (
        "data={kind: digits, normalize: {kind: private, noise_multiplier: 20.0}, on_bad_record: "
        "drop}",
    ),
    "made_up_users": (
        "data={kind: synthetic, size: 400, features: 4, classes: 3, users: 200}",
        "sampler={kind: user, sample_rate: 0.1}",
    ),
    "add_remove": (
        "data={kind: synthetic, size: 400, features: 4, classes: 3, holdout: public}",
        "budget.relation=add_remove",
        "sampler.expected_batch_size=32",
    ),
    "replace_one": (
        "budget={epsilon: 60.0, delta: 1.0e-4, relation: replace_one}",
        "sampler={kind: without_replacement, expected_batch_size: 32}",
    ),
    "shuffled": ("sampler={kind: shuffle, expected_batch_size: 80}", "budget.epsilon=20.0"),
    "adaptive": ("clipping=adaptive",),
    "averaged": ("clipping={kind: microbatch, max_grad_norm: 1.0}",),
    "averaged_replaced": (
        "accountant=pld",
        "clipping={kind: microbatch, max_grad_norm: 1.0}",
        "budget={epsilon: 60.0, delta: 1.0e-4, relation: replace_one}",
    ),
    "estimated_norms": ("clipping={kind: jl, delta: 1.0e-6}", "model={kind: mlp, hidden: [4]}"),
    "secure": ("noise.secure=true",),
    "laplace": (
        "noise={kind: constant, noise_multiplier: 20.0, mechanism: laplace}",
        "accountant=pld",
    ),
}
PLUGIN = '''
from typing import ClassVar
from dppipe import NoiseSchedule


class Falling(NoiseSchedule, kind="falling"):
    """Lowers the noise a little at each step."""

    adaptive: ClassVar[bool] = True

    def multiplier(self, progress):
        return 1.0

    def next_multiplier(self, history):
        return 0.99 ** len(history)
'''
KILLED = """
import os, signal, sys
from dppipe.runs.record import RunRecord
from dppipe.cli.app import app
step = RunRecord.step
def then_die(record, **facts):
    step(record, **facts)
    if record.ledger.rows == 5:
        os.kill(os.getpid(), signal.SIGKILL)
RunRecord.step = then_die
app(sys.argv[1:])
"""


@dataclass(frozen=True)
class MadeRun:
    """A run directory, and what the test itself knows of how it came to be."""

    path: Path
    began: datetime
    ended: datetime
    known: dict[str, Any] = field(default_factory=dict)


class RunMaker:
    """Makes runs of each kind in one folder."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._patch = patch
        (folder / "spec.yaml").write_text(SPEC)
        (folder / "visits.csv").write_text(_visits())
        (folder / "falling.py").write_text(PLUGIN)

    def make_all(self) -> dict[str, MadeRun]:
        """Make a run of each kind."""
        made = {name: self.spec_run(name, *changes) for name, changes in SPECS.items()}
        made["user_interrupted"], made["user_resumed"] = self.interrupted()
        made["crashed"] = self.killed()
        made["failed"] = self.failed()
        made["scope"] = self.in_scope()
        made["evaluated_private"] = self.evaluated("evaluated_private", *USERS)
        statistics = (*SPECS["statistics"], "budget=none")
        made["evaluated_not_private"] = self.evaluated("evaluated_not_private", *statistics)
        made["evaluated_public"] = self.evaluated("evaluated_public", "data.holdout=public")
        made["attacked"] = self.attacked()
        made["filtered"] = self.filtered()
        made["audited"] = self.audited("audited", "--on-data", "--number", "60")
        made["audited_inputs"] = self.audited("audited_inputs", "--canaries", "inputs")
        private = made["private"].path / "checkpoints" / "final.ckpt"
        public = self.folder / "public.ckpt"
        shutil.copy(made["not_private"].path / "checkpoints" / "final.ckpt", public)
        made["earlier_same"] = self.started_from("earlier_same", private, "same")
        made["earlier_disjoint"] = self.started_from("earlier_disjoint", private, "disjoint")
        made["pretrained"] = self.started_from("pretrained", public, "same")
        made["old_split"] = self.split_by_position()
        made |= self.callbacks()
        return made

    def command(self, *words: str, code: int = 0) -> None:
        """Run a command of dppipe in this process."""
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == code, (words, done.output)

    def spec_run(
        self, name: str, *changes: str, code: int = 0, words: tuple[str, ...] = ()
    ) -> MadeRun:
        """Run the small spec with changes."""
        sets = [word for change in changes for word in ("--set", change)]
        began = _now()
        self.command("run", "spec.yaml", "--run-dir", name, *sets, *words, code=code)
        return MadeRun(self.folder / name, began, _now())

    def audited(self, name: str, *words: str) -> MadeRun:
        """Make a run that is audited from inside, whatever the audit finds."""
        began = _now()
        done = CliRunner().invoke(app, ["audit", "spec.yaml", "--one-run", "--out", name, *words])
        assert done.exit_code in (0, 4), done.output
        return MadeRun(self.folder / name, began, _now())

    def interrupted(self) -> tuple[MadeRun, MadeRun]:
        """Make a run that SIGTERM has stopped, and the same run after it was resumed."""
        step = RunRecord.step

        def then_stop(record: RunRecord, **facts: Any) -> None:
            step(record, **facts)
            if record.ledger.rows == 5:
                os.kill(os.getpid(), signal.SIGTERM)

        with self._patch.context() as patch:
            patch.setattr(RunRecord, "step", then_stop)
            stopped = self.spec_run("user", *USERS, code=143)
        kept = self.folder / "user_interrupted"
        shutil.copytree(stopped.path, kept)
        self.command("resume", "user")
        resumed = MadeRun(stopped.path, stopped.began, _now(), {"starts": 2})
        return MadeRun(kept, stopped.began, stopped.ended), resumed

    def killed(self) -> MadeRun:
        """Make a run that was killed after its fifth charge, and resumed."""
        began = _now()
        words = ["run", "spec.yaml", "--run-dir", "crashed"]
        command = [sys.executable, "-c", KILLED, *words]
        environment = os.environ | {"PYTHONPATH": str(Path(dppipe.__file__).parents[1])}
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert not (self.folder / "crashed" / "privacy.md").exists()
        self.command("resume", "crashed")
        return MadeRun(self.folder / "crashed", began, _now(), {"starts": 2})

    def failed(self) -> MadeRun:
        """Make a run that memory failed at its third step."""
        from dppipe.engine import Engine

        accumulate = Engine.accumulate_parts
        calls = []

        def full_at_last(engine: Engine, *args: Any, **options: Any) -> Any:
            calls.append(1)
            if len(calls) > 2:
                raise MemoryError
            return accumulate(engine, *args, **options)

        with self._patch.context() as patch:
            patch.setattr(Engine, "accumulate_parts", full_at_last)
            return self.spec_run("failed", code=1)

    def in_scope(self) -> MadeRun:
        """Make two runs in one scope; the second is returned."""
        terms = ("--epsilon", "20", "--delta", "1e-3", "--like", "spec.yaml")
        self.command("budget", "create", "clinic", *terms)
        self.spec_run("scope_first", "budget.scope=clinic")
        made = self.spec_run("scope", "budget.scope=clinic")
        known = {"scope": {"epsilon": 20.0, "delta": 1e-3, "runs": 2}}
        return MadeRun(made.path, made.began, made.ended, known)

    def evaluated(self, name: str, *changes: str) -> MadeRun:
        """Make a run whose test split was scored; asking again scores nothing."""
        made = self.spec_run(name, *changes)
        self.command("evaluate", name)
        self.command("evaluate", name)
        return MadeRun(made.path, made.began, made.ended, {"evaluations": 1})

    def attacked(self) -> MadeRun:
        """Make a run whose model was attacked."""
        made = self.spec_run("attacked")
        words = ("--kind", "membership", "--method", "loss", "--nonprivate")
        self.command("attack", "attacked", *words)
        return made

    def filtered(self) -> MadeRun:
        """Make a run whose noise follows its releases."""
        plugins = self.folder / "plugins"
        plugins.mkdir()
        shutil.copy(self.folder / "falling.py", plugins)
        budget = "budget={epsilon: 4.0, delta: 1.0e-4}"
        return self.spec_run("filtered", FALLING, budget, words=("--plugins", str(plugins)))

    def started_from(self, name: str, file: Path, records: str) -> MadeRun:
        """Make a run that starts from weights in a file."""
        changes = [f"model.pretrained={{path: {file}, records: {records}}}"]
        if records == "disjoint":
            changes.append("seed=8")
            changes.append("data.size=402")
        return self.spec_run(name, *changes)

    def split_by_position(self) -> MadeRun:
        """Make a run under add_remove as earlier versions split it."""
        with self._patch.context() as patch:
            patch.setattr(privacy_plan, "_split", lambda spec: "position")
            return self.spec_run("old_split", *SPECS["add_remove"])

    def callbacks(self) -> dict[str, MadeRun]:
        """Make runs of a module in Python."""
        from statements.modules import fit_module

        made = {}
        for name, options in {
            "callback_public": {"holdout": "public", "validates": True},
            "callback_private": {"holdout": "private", "validates": True},
            "callback_early": {"holdout": "public", "validates": True, "stops_at": 4},
            "callback_users": {"holdout": "private", "validates": False, "users": True},
        }.items():
            began = _now()
            known = fit_module(self.folder / name, **options)
            made[name] = MadeRun(self.folder / name, began, _now(), known)
        return made


def _visits() -> str:
    dice = random.Random(1)
    rows = [f"{dice.randint(20, 90)},{dice.randint(0, 1)},p{row % 100}" for row in range(300)]
    return "\n".join(["age,ill,patient", *rows]) + "\n"


def _now() -> datetime:
    return datetime.now(UTC)


def made_once(folder: Path, patch: pytest.MonkeyPatch, make: Callable[[RunMaker], Any]) -> Any:
    """Call `make` in a folder of its own, with a store of its own."""
    with patch.context() as own:
        own.chdir(folder)
        own.setenv("DPPIPE_STORE", str(folder / "budgets.db"))
        return make(RunMaker(folder, own))


MINUTE = timedelta(minutes=1)
