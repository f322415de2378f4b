"""A plugin learner of two releases, and runs of plugin learners through the whole command."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fresh_processes import run_command

NEAREST = '''\
"""A noisy mean of bounded vectors, then a selection among three public candidates."""

from __future__ import annotations

import torch
from torch import nn

from dppipe import Field, Learner, Release
from dppipe.component import AutoFloat
from dppipe.privacy.events.mechanisms import exponential, gaussian


class Nearest(Learner, kind="nearest"):
    """Releases the mean input, and which of three candidates is near most units."""

    noise_multiplier: AutoFloat = Field("auto", gt=0, description="The noise on the mean.")
    max_norm: float = Field(2.0, gt=0, description="Inputs are clipped to this norm.")

    def releases(self, facts, *, scale):
        shown = {"noise_multiplier": scale, "max_norm": self.max_norm}
        return [
            Release(what="mean", event=gaussian(scale), facts=shown),
            Release(what="selection", event=exponential(1 / scale), facts={"candidates": 3}),
        ]

    def module(self, facts):
        module = nn.Module()
        module.mean = nn.Parameter(torch.zeros(facts.input_shape, dtype=torch.float64))
        module.register_buffer("chosen", torch.tensor(-1))
        return module

    def fit(self, job, gate):
        shape, records = job.facts.input_shape, job.facts.records
        total = gate.sum_units(
            gate.next(), lambda unit: unit.inputs.mean(0), shape=shape, bound=self.max_norm
        )
        job.module.mean.data = total / records
        candidates = torch.stack([torch.full(shape, level) for level in (-1.0, 0.0, 1.0)])

        def is_nearest(unit):
            distances = (candidates - unit.inputs.mean(0)).square().flatten(1).sum(1)
            return (distances == distances.min()).double()

        chosen = gate.select_units(gate.next(), is_nearest, candidates=3, bound=1.0)
        job.module.chosen.fill_(chosen)
        return job.module
'''

SPEC = """\
version: 1
name: nearest
seed: 1
learner: {kind: nearest}
data: {kind: synthetic, size: 400, features: 5, classes: 3}
budget: {epsilon: 2.0, delta: 1.0e-5}
"""


@dataclass(frozen=True)
class Ended:
    """A command that has ended in a process of its own."""

    code: int
    output: str


@dataclass(frozen=True)
class Desk:
    """A folder with a plugin and a spec, in which commands run."""

    folder: Path

    def dppipe(self, *words: str, code: int | None = 0) -> Ended:
        """Run a command as a process; it must end with this code."""
        ended, printed = run_command(words, folder=self.folder)
        said = " ".join(printed.split())
        assert code is None or ended == code, said
        return Ended(ended, said)

    def run(self, *changes: str, name: str = "run", code: int | None = 0) -> Path:
        """Run the spec with changes; return the run directory."""
        words = ["run", "spec.yaml", "--run-dir", name]
        for change in changes:
            words += ["--set", change]
        self.dppipe(*words, code=code)
        return self.folder / name


def make_desk(folder: Path, *, plugin: str = NEAREST, spec: str = SPEC) -> Desk:
    (folder / "plugins").mkdir(parents=True)
    (folder / "plugins" / "mine.py").write_text(plugin)
    (folder / "spec.yaml").write_text(spec)
    return Desk(folder)


def rows_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]


def read_json(file: Path) -> Any:
    return json.loads(file.read_text())
