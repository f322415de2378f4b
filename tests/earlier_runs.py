"""Make the run directories of `runs/earlier/`: tiny runs, finished and interrupted.

Those in it were made by commit bfc480d, and those with private statistics by commit abae8ac, the
last one whose ledgers have rows of version 1. The commit was first on PYTHONPATH:

    python tests/earlier_runs.py tests/runs/earlier [kind ...]

Only names that these commits and later ones share are used here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import TensorDataset
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app

SPEC = """
version: 1
name: small
seed: 7
data:      {kind: synthetic, size: 200, features: 3, classes: 2}
model:     {kind: logistic}
optimizer: {kind: sgd, lr: 0.5, momentum: 0.9}
sampler:   {kind: poisson, sample_rate: 0.1}
clipping:  {kind: flat, max_grad_norm: 1.0}
noise:     {kind: constant, noise_multiplier: 2.0}
accountant: {kind: pld}
budget:    {epsilon: 8.0, delta: 1.0e-4}
train:     {steps: 6, validate_every: 3, checkpoint_every: 2}
"""
USERS = (
    "data={kind: synthetic, size: 200, features: 3, classes: 2, users: 50}",
    "sampler={kind: user, sample_rate: 0.2}",
)
SHUFFLED = (
    "sampler={kind: shuffle, expected_batch_size: 40}",
    "accountant=rdp",
    "budget.epsilon=20.0",
)
STATISTICS = ("data.normalize={kind: private, noise_multiplier: 8.0, lower: -4, upper: 4}",)
FINISHED: dict[str, tuple[str, ...]] = {
    "finished": (),
    "not_private": ("budget=none",),
    "users": USERS,
    "add_remove": ("budget.relation=add_remove", "sampler.expected_batch_size=16"),
    "statistics": STATISTICS,
}
INTERRUPTED: dict[str, tuple[str, ...]] = {
    "adaptive_interrupted": ("clipping={kind: adaptive, unclipped_num_std: 4.0}",),
    "shuffle_interrupted": SHUFFLED,
    "statistics_interrupted": STATISTICS,
}


class Mine(pl.LightningModule):
    """A module of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(**where: Any) -> dppipe.DPCallback:
    """Fit the module, in a new directory (`run_dir`) or in one to go on with (`resume`)."""
    from dppipe.noise import Constant
    from dppipe.sampling import Poisson

    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(60, 3, generator=generator)
    dataset = TensorDataset(inputs, torch.randint(2, (60,), generator=generator))
    private = dppipe.DPCallback(
        sampler=Poisson(sample_rate=0.2, physical_batch_size=8),
        noise=Constant(noise_multiplier=2.0),
        budget=dppipe.Budget(epsilon=8.0, delta=1e-4),
        checkpoint_every=2,
        **where,
    )
    quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    trainer = pl.Trainer(max_steps=6, accelerator="cpu", callbacks=[private], **quiet)
    checkpoint = where["resume"].last_checkpoint if "resume" in where else None
    trainer.fit(Mine(), private.loader(dataset), ckpt_path=checkpoint, weights_only=True)
    return private


def command(*words: str, code: int = 0) -> None:
    """Run a command of dppipe in this process."""
    done = CliRunner().invoke(app, list(words))
    if done.exit_code != code:
        raise RuntimeError(f"{words}: expected exit code {code}, got {done.exit_code}: {done}")


def _stop_at(step: int, number: int) -> None:
    """Let this process get a signal at an optimizer step."""
    taken = []
    original = torch.optim.SGD.step

    def counted(optimizer: torch.optim.SGD, *args: Any, **options: Any) -> Any:
        taken.append(1)
        if len(taken) == step:
            os.kill(os.getpid(), number)
        return original(optimizer, *args, **options)

    torch.optim.SGD.step = counted  # type: ignore[method-assign]


def _make(kind: str) -> None:
    """Make one run directory in the current folder."""
    changes = FINISHED.get(kind, ()) + INTERRUPTED.get(kind, ())
    sets = [word for change in changes for word in ("--set", change)]
    if kind == "python_interrupted":
        _stop_at(3, signal.SIGTERM)
        fit(run_dir=Path(kind))
        return
    if kind in INTERRUPTED:
        _stop_at(3, signal.SIGTERM)
        command("run", "spec.yaml", "--run-dir", kind, *sets, code=143)
        return
    if kind == "killed":
        _stop_at(4, signal.SIGKILL)
    command("run", "spec.yaml", "--run-dir", kind, *sets)
    command("evaluate", kind)


def make_all(folder: Path, kinds: Sequence[str] = ()) -> None:
    """Make each run in a process of its own, in a neutral place, and move it into the folder."""
    place = Path("/tmp/earlier")  # the files of a run name it
    place.mkdir()
    (place / "spec.yaml").write_text(SPEC)
    environment = os.environ | {"DPPIPE_STORE": str(place / "budgets.db")}
    for kind in kinds or (*FINISHED, *INTERRUPTED, "killed", "python_interrupted"):
        words = [sys.executable, str(Path(__file__).resolve()), "--one", kind]
        done = subprocess.run(words, cwd=place, env=environment, check=False)
        if done.returncode != (-signal.SIGKILL if kind == "killed" else 0):
            raise RuntimeError(f"{kind}: ended with {done.returncode}")
        shutil.move(place / kind, folder / kind)
    shutil.rmtree(place)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        _make(sys.argv[2])
    else:
        make_all(Path(sys.argv[1]).resolve(), sys.argv[2:])
