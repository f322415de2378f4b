"""Runs of one learner through the whole command, in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from contracts.learner_cases import CASES, OWN_CASES, LearnerCase
from contracts.release_recording import Trace, recorded
from contracts.staged_records import (
    RECORDS,
    STAGE,
    USERS,
    Records,
    Unreadable,
    fill_stage,
    ordinary_records,
)
from learners.own_kinds import own_kinds
from redteam.comparing import Difference, differing_facts
from redteam.facts import Facts
from redteam.hearing import listening
from redteam.outputs import files_of, text_facts
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.spec.load import load_spec
from dppipe.spec.spec import Spec

ALL = (*CASES, *OWN_CASES)
OWN_TRIED = (("zero_out", "example"), ("replace_one", "user"))
"""What is tried of the tests' own learners, which stand for their mechanisms alone."""
SPEC = """\
version: 1
name: contract
seed: 3
data: {{class_path: contracts.staged_records.Staged, init_args: {{task: {task}}}, holdout: public, split: {{train: 1.0, val: 0.0, test: 0.0}}{users}}}
learner: {learner}
budget: {{epsilon: {epsilon}, delta: 1.0e-5, relation: {relation}, unit: {unit}}}
"""


@dataclass(frozen=True)
class Setting:
    """A learner with a relation and a unit."""

    case: LearnerCase
    relation: str = "zero_out"
    unit: str = "example"

    @property
    def id(self) -> str:
        return f"{self.case.id}-{self.relation}-{self.unit}"

    @property
    def supported(self) -> bool:
        return self.relation in self.case.relations and self.unit in self.case.units

    @property
    def learner(self) -> str:
        return self.case.learner_for.get(self.relation, self.case.learner)

    def spec(self) -> str:
        """Return the text of the spec."""
        # Under add_remove the number of users is secret: the data says only whose each record is.
        states_users = self.unit == "user" and self.relation != "add_remove"
        text = SPEC.format(
            task=self.case.task,
            users=f", users: {USERS}" if states_users else "",
            learner=self.learner,
            epsilon=self.case.epsilon,
            relation=self.relation,
            unit=self.unit,
        )
        return text + (f"{self.case.blocks}\n" if self.case.blocks else "")

    def owners(self) -> list[int] | None:
        return [place % USERS for place in range(RECORDS)] if self.unit == "user" else None

    def records(self) -> Records:
        """Return ordinary records."""
        return Records(ordinary_records(self.case.task, range(RECORDS)), self.owners())


@dataclass(frozen=True)
class Ran:
    """A run that has ended, and all that can be seen of it."""

    path: Path
    exit_code: int
    output: str
    trace: Trace
    said: Facts
    files: dict[str, Facts]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.path / "ledger.jsonl").read_text().splitlines()]

    def json(self, name: str) -> Any:
        return json.loads((self.path / name).read_text())

    def weights(self) -> dict[str, torch.Tensor]:
        return torch.load(self.path / "checkpoints" / "final.ckpt", weights_only=True)

    def values(self) -> list[torch.Tensor]:
        """Return the saved values of the releases."""
        files = sorted((self.path / "released").glob("*.pt"))
        return [torch.load(file, weights_only=True)["value"] for file in files]


@dataclass(frozen=True)
class Desk:
    """A folder with the spec of a setting, in which commands run."""

    folder: Path
    setting: Setting

    @classmethod
    def make(cls, folder: Path, setting: Setting) -> Desk:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "spec.yaml").write_text(setting.spec())
        if setting.case.files is not None:
            setting.case.files(folder)
        return cls(folder, setting)

    def dppipe(self, *words: str, code: int | None = 0) -> str:
        """Run a command; return what it says, in one line."""
        with inside(self.folder):
            done = CliRunner().invoke(app, list(words))
        said = " ".join(done.output.split())
        assert not done.exception or isinstance(done.exception, SystemExit), done.exc_info
        assert code is None or done.exit_code == code, said
        return said

    def plan(self, *changes: str, code: int | None = 0) -> Any:
        """Plan without records to read; return the plan, or what was said in its place."""
        STAGE.train = Unreadable(RECORDS, self.setting.owners())
        said = self.dppipe("plan", "spec.yaml", "--json", *_sets(changes), code=code)
        return json.loads(said) if code == 0 else said

    def spec(self, *changes: str) -> Spec:
        with inside(self.folder):
            return load_spec(Path("spec.yaml"), overrides=list(changes))

    def run(
        self,
        *changes: str,
        records: Records | None = None,
        replay: Trace | None = None,
        name: str = "run",
        code: int | None = 0,
    ) -> Ran:
        """Run the spec with changes; in the place of noise comes what another run has released."""
        fill_stage(self.setting.case.task, records or self.setting.records())
        trace = Trace()
        words = ["run", "spec.yaml", "--run-dir", "now", *_sets(changes)]
        with listening() as heard, recorded(trace, replay=replay), inside(self.folder):
            done = CliRunner().invoke(app, words)
        assert code is None or done.exit_code == code, (done.output, done.exception)
        said = text_facts(done.output) | text_facts("\n".join(heard.messages), "message")
        said |= text_facts(heard.console.getvalue(), "console")
        said["exit code"] = str(done.exit_code)
        # Both runs of a pair stand at the same path, so that nothing differs by its name.
        files = files_of(self.folder / "now") if (self.folder / "now").exists() else {}
        path = self.folder / name
        if (self.folder / "now").exists():
            (self.folder / "now").rename(path)
        return Ran(path, done.exit_code, done.output, trace, said, files)

    def resume(self, *, code: int | None = 0) -> Ran:
        """Go on with the run that was killed."""
        trace = Trace()
        with recorded(trace), inside(self.folder):
            done = CliRunner().invoke(app, ["resume", "run"])
        assert code is None or done.exit_code == code, (done.output, done.exception)
        return Ran(self.folder / "run", done.exit_code, done.output, trace, {}, {})

    def curve(self, run: Path) -> list[float]:
        """Return the planned epsilon after each release of a run."""
        plan = json.loads((run / "plan.json").read_text())
        return [point["epsilon"] for point in plan["curve"]]


def differences(first: Ran, second: Ran) -> list[Difference]:
    """Return everything in which two runs differ: what they said, and what is in their files."""
    found = differing_facts(first.said, second.said, "said")
    for name in sorted({*first.files, *second.files}):
        found += differing_facts(first.files.get(name), second.files.get(name), name)
    return found


def settings(*, supported: bool, cases: tuple[LearnerCase, ...] = ALL) -> list[Setting]:
    """Return all learners with each relation and unit that they support, or don't."""
    found: list[Setting] = []
    for case in cases:
        for relation in ("zero_out", "add_remove", "replace_one"):
            for unit in ("example", "user"):
                setting = Setting(case, relation, unit)
                tried = case in CASES or (relation, unit) in OWN_TRIED
                if tried and setting.supported == supported:
                    found.append(setting)
    return found


def usual_settings(cases: tuple[LearnerCase, ...] = ALL) -> list[Setting]:
    """Return all learners with their first relation and unit."""
    return [Setting(case, case.relations[0], case.units[0]) for case in cases]


def each(settings: list[Setting]) -> Any:
    """Return the mark that runs a test for each setting."""
    return pytest.mark.parametrize("setting", settings, ids=lambda setting: setting.id)


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder, in which the tests' own learners are known."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        with own_kinds():
            yield
    finally:
        os.chdir(before)


def _sets(changes: tuple[str, ...]) -> list[str]:
    return [word for change in changes for word in ("--set", change)]
