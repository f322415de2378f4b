"""Small searches whose order and scores are known, for tests of what they leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.pipeline.tuning import candidates, search
from dppipe.planning.tuning.make_tune_plan import make_tune_plan
from dppipe.spec import load_spec

SPEC = """
version: 1
name: searched
seed: 7
data:      {kind: synthetic, size: 300, features: 4, classes: 3, holdout: public}
model:     {kind: logistic}
optimizer: {kind: sgd, lr: 0.5}
sampler:   {kind: poisson, sample_rate: 0.05}
clipping:  {kind: flat, max_grad_norm: 1.0}
noise:     {kind: constant, noise_multiplier: 2.0}
accountant: {kind: rdp}
budget:    {epsilon: 8.0, delta: 1.0e-5}
train:     {steps: 3, checkpoint_every: 2}
tune:
  candidates: {optimizer.lr: [0.1, 0.5]}
  repetitions: {mean: 3}
"""
ANOTHER_LEARNER = (
    (
        "optimizer: {kind: sgd, lr: 0.5}\n",
        "learner: {kind: output_perturbation, regularization: 1.0, noise_multiplier: 4.0}\n",
    ),
    ("sampler:   {kind: poisson, sample_rate: 0.05}\n", ""),
    ("clipping:  {kind: flat, max_grad_norm: 1.0}\n", ""),
    ("noise:     {kind: constant, noise_multiplier: 2.0}\n", ""),
    ("train:     {steps: 3, checkpoint_every: 2}\n", ""),
    ("optimizer.lr", "learner.regularization"),
)
"""Changes to a search among settings of a learner without steps; its one release is its weights."""
SCORES = {0.1: 0.135791357, 0.5: 0.246802468}
"""The score of a candidate by its setting: the second is the better one."""
LOST = str(SCORES[0.1])
WON = str(SCORES[0.5])


def known_scores(patch: pytest.MonkeyPatch) -> None:
    """Score runs by their setting alone."""

    def scored(network: Any, holdout: Any, spec: Any, **options: Any) -> float:
        return SCORES[setting_of(spec)]

    patch.setattr(candidates, "score_run", scored)


def setting_of(spec: Any) -> float:
    """Return what candidates differ in."""
    return float(spec.optimizer.lr if spec.takes_steps else spec.learner.regularization)


def known_order(patch: pytest.MonkeyPatch, *order: int) -> list[Any]:
    """Draw this order; return a list that grows with every draw."""
    drawn: list[Any] = []

    def draw(*args: Any, **options: Any) -> tuple[int, ...]:
        drawn.append(order)
        return order

    patch.setattr(search, "draw_order", draw)
    return drawn


def write_spec(folder: Path, *changes: tuple[str, str]) -> Path:
    text = SPEC
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "spec.yaml").write_text(text)
    return folder / "spec.yaml"


def begin(spec_path: Path, run: Path) -> Any:
    """Make a search in this process."""
    spec = load_spec(spec_path)
    return search.run_search(spec, make_tune_plan(spec), run_dir=run)


def command(*words: str, code: int = 0) -> str:
    """Run a command, and return all that it prints."""
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


def rows(ledger: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()]


def all_bytes(run: Path) -> dict[str, bytes]:
    """Return the contents of every file under a directory, by its name."""
    found = {}
    for path in sorted(run.rglob("*")):
        if path.is_file():
            found[str(path.relative_to(run))] = path.read_bytes()
    return found
