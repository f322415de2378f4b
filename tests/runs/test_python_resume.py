"""A callback resumes a run under its own plan, and in its own directory, alone."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import dppipe
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.noise import Constant
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.runs.verify import verify_ledger
from dppipe.sampling import Poisson

pytestmark = pytest.mark.filterwarnings(
    "ignore:You.re resuming from a checkpoint that ended before the epoch"
)


class Mine(pl.LightningModule):
    """A module that gets a Ctrl-C after its second step, if it is to."""

    def __init__(self, *, interrupts: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.interrupts = interrupts

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.interrupts and self.global_step == 2:
            os.kill(os.getpid(), signal.SIGINT)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(
    module: pl.LightningModule, *, steps: int = 6, restores: bool = True, **changes: Any
) -> dppipe.DPCallback:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(100, 5, generator=generator)
    dataset = TensorDataset(inputs, torch.randint(3, (100,), generator=generator))
    given: dict[str, Any] = {
        "sampler": Poisson(sample_rate=0.1, physical_batch_size=8),
        "noise": Constant(),
        "accountant": Rdp(),
        "budget": dppipe.Budget(epsilon=4.0, delta=1e-5),
    }
    private = changes.pop("kind", dppipe.DPCallback)(**given | changes)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    trainer = pl.Trainer(max_steps=steps, accelerator="cpu", callbacks=[private], **quiet)
    resumed = changes.get("resume")
    path = resumed.last_checkpoint if resumed is not None else None
    path = path if restores and path is not None and path.exists() else None
    trainer.fit(module, private.loader(dataset), ckpt_path=path, weights_only=True)
    return private


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    private = fit(Mine(interrupts=True), run_dir=tmp_path / "run")
    assert private.outcome is not None
    assert private.outcome.status == "interrupted"
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"budget": dppipe.Budget(epsilon=1.0, delta=1e-5)}, "budget_epsilon 1.0 instead of 4.0"),
        ({"budget": dppipe.Budget(epsilon=4.0, delta=1e-4)}, "delta 0.0001 instead of 1e-05"),
        ({"sampler": Poisson(sample_rate=0.05)}, "sample_rate 0.05 instead of 0.1"),
        ({"steps": 9}, "steps 9 instead of 6"),
        ({"holdout": "public"}, "holdout 'public' instead of 'private'"),
        ({"noise": Constant(noise_multiplier=9.0)}, "noise"),
    ],
)
def test_a_run_goes_on_under_no_other_plan(interrupted: Path, changes: Any, named: str) -> None:
    """Steps that an earlier plan paid for would otherwise be claimed at a later plan's epsilon."""
    before = (interrupted / "ledger.jsonl").read_bytes()
    with pytest.raises(PrivacyRefusal, match=named):
        fit(Mine(), resume=dppipe.RunDirectory.open(interrupted), **changes)
    assert (interrupted / "ledger.jsonl").read_bytes() == before


def test_a_run_goes_on_under_its_own_plan(interrupted: Path) -> None:
    private = fit(Mine(), resume=dppipe.RunDirectory.open(interrupted))
    assert private.outcome is not None
    assert (private.outcome.status, private.outcome.steps) == ("completed", 6)


def test_a_copy_goes_on_only_where_the_original_is_gone(interrupted: Path) -> None:
    copied = interrupted.with_name("copied")
    shutil.copytree(interrupted, copied)
    with pytest.raises(PrivacyRefusal, match="original_is_gone=True"):
        fit(Mine(), resume=dppipe.RunDirectory.open(copied))
    gone = dppipe.RunDirectory.open(copied, original_is_gone=True)
    with pytest.raises(PrivacyRefusal, match="expected the original to be gone"):
        fit(Mine(), resume=gone)
    shutil.rmtree(interrupted)
    private = fit(Mine(), resume=gone)
    assert private.outcome is not None
    assert private.outcome.status == "completed"


def test_messages_of_a_callback_name_python_arguments(interrupted: Path) -> None:
    with pytest.raises(PrivacyRefusal, match="choose another run_dir"):
        fit(Mine(), run_dir=interrupted)
    with pytest.raises(UsageError, match=r"DPCallback\(resume=RunDirectory.open\('"):
        dppipe.load_model(interrupted)


def test_a_validation_step_that_calls_the_training_step_is_told_what_to_do(tmp_path: Path) -> None:
    class Calls(Mine):
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val_loss", self.training_step(batch, batch_idx))

    private = dppipe.DPCallback(
        sampler=Poisson(sample_rate=0.1),
        budget=dppipe.Budget(epsilon=4.0, delta=1e-5),
        run_dir=tmp_path / "run",
        holdout="public",
    )
    dataset = TensorDataset(torch.randn(100, 5), torch.randint(3, (100,)))
    trainer = pl.Trainer(max_steps=4, accelerator="cpu", callbacks=[private], logger=False)
    with pytest.raises(PrivacyRefusal, match="let both call a method that they share"):
        trainer.fit(Calls(), private.loader(dataset), DataLoader(dataset, batch_size=50))
    assert not (tmp_path / "run").exists()


SEEN_BY = {
    "checkpoint and summary": (True, True),
    "checkpoint": (True, False),
    "summary": (False, True),
}


@pytest.mark.parametrize("seen", SEEN_BY)
@pytest.mark.parametrize("gone", [1, 2])
def test_a_run_whose_ledger_lacks_rows_that_were_seen_goes_no_further(
    interrupted: Path, gone: int, seen: str
) -> None:
    from_checkpoint, has_summary = SEEN_BY[seen]
    ledger = interrupted / "ledger.jsonl"
    left = b"".join(ledger.read_bytes().splitlines(keepends=True)[:-gone])
    ledger.write_bytes(left)  # in place, as the run's origin knows the file
    if not has_summary:
        (interrupted / "summary.json").unlink()
    if not from_checkpoint:
        (interrupted / "checkpoints" / "last.ckpt").unlink()
    with pytest.raises(PrivacyRefusal, match=r"expected the rows? that the \w+ has seen"):
        fit(Mine(), resume=dppipe.RunDirectory.open(interrupted))
    assert ledger.read_bytes() == left


class MyCallback(dppipe.DPCallback):
    """A callback of the user's own, whose state has another name in checkpoints."""


@pytest.mark.parametrize("kind", [dppipe.DPCallback, MyCallback])
@pytest.mark.parametrize("gone", [1, 2])
def test_a_killed_run_that_lost_rows_goes_no_further_without_its_checkpoint_either(
    tmp_path: Path, gone: int, kind: type[dppipe.DPCallback]
) -> None:
    """A killed run has no summary; where no checkpoint is restored, the last one is still read."""
    path = tmp_path / "run"
    fit(Mine(interrupts=True), run_dir=path, kind=kind)
    (path / "summary.json").unlink()
    ledger = path / "ledger.jsonl"
    whole = ledger.read_bytes()
    left = b"".join(whole.splitlines(keepends=True)[:-gone])
    ledger.write_bytes(left)
    found = verify_ledger(path)
    assert [fault for fault in found.faults if "the row that the checkpoint names" in fault]
    with pytest.raises(PrivacyRefusal, match="expected the rows that the checkpoint has seen"):
        fit(Mine(), resume=dppipe.RunDirectory.open(path), restores=False, kind=kind)
    assert ledger.read_bytes() == left

    ledger.write_bytes(whole)
    assert verify_ledger(path).intact
    private = fit(Mine(), resume=dppipe.RunDirectory.open(path), restores=False, kind=kind)
    assert private.outcome is not None
    assert private.outcome.status == "completed"


@pytest.mark.parametrize("content", [b"", b"damaged", None], ids=["empty", "damaged", "tensors"])
def test_a_checkpoint_that_says_nothing_of_the_ledger_is_refused(
    interrupted: Path, content: bytes | None
) -> None:
    (interrupted / "summary.json").unlink()
    last = interrupted / "checkpoints" / "last.ckpt"
    if content is None:
        torch.save({"callbacks": {"Other": {"rows": 3}}, "state_dict": {}}, last)
    else:
        last.write_bytes(content)
    with pytest.raises(UsageError, match=r"last\.ckpt: expected"):
        fit(Mine(), resume=dppipe.RunDirectory.open(interrupted), restores=False)
    assert not verify_ledger(interrupted).intact
