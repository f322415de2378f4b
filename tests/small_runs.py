"""Runs of small specs through the whole command, in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app

SPEC = """
version: 1
name: small
seed: 7
data:      {kind: synthetic, size: 1000, features: 8, classes: 3, holdout: public}
model:     {kind: logistic}
optimizer: {kind: sgd, lr: 0.5}
sampler:   {kind: poisson, sample_rate: 0.05}
clipping:  {kind: flat, max_grad_norm: 1.0}
noise:     {kind: constant, noise_multiplier: 1.0}
accountant: {kind: rdp}
budget:    {epsilon: 8.0, delta: 1.0e-5}
train:     {steps: 10}
"""


@dataclass(frozen=True)
class Finished:
    """A command that has ended and, if it made one, its run directory."""

    path: Path
    exit_code: int
    output: str

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.path / "summary.json").read_text())

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.path / "ledger.jsonl").read_text().splitlines()]

    def weights(self) -> dict[str, Any]:
        import torch

        return torch.load(self.path / "checkpoints" / "final.ckpt", weights_only=True)


@pytest.fixture
def run(tmp_path):
    """Run the small spec with changes, each in a directory of its own."""
    (tmp_path / "spec.yaml").write_text(SPEC)
    made = 0

    def go(*changes: str) -> Finished:
        nonlocal made
        made += 1
        path = tmp_path / f"run{made}"
        words = ["run", str(tmp_path / "spec.yaml"), "--run-dir", str(path)]
        result = CliRunner().invoke(
            app, [*words, *(word for change in changes for word in ("--set", change))]
        )
        return Finished(path, result.exit_code, result.output)

    return go
