"""Correlated noise as one file: a block of two steps, charged once, with either restart rule.

The process below is the matrix mechanism with C = [[1, 0], [c, 1]]: noise x = C^-1 w on the two
sums of a block, where w is independent. A record is in both steps, so C moves by at most
sqrt(1 + (1 + c)^2) bounds, which w is scaled to: a block costs one Gaussian release. If a block is
cut off and its second step gets fresh noise of the same size, both steps together cost
2 / (1 + (1 + c)^2) <= 1 of that, so going on is free for c >= 0.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import TensorDataset

from dppipe import Budget, DPCallback, RunDirectory
from dppipe.clipping import Adaptive, Flat
from dppipe.errors import PrivacyRefusal
from dppipe.noise import Constant
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants import Pld
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.runs.verify import verify_ledger
from dppipe.sampling import FullBatch, Poisson, Shuffle

RECORDS = 40


class PairProcess:
    """Noise of two steps with C = [[1, 0], [c, 1]]."""

    def __init__(self, c: float) -> None:
        self.c = c

    def init(self, like: torch.Tensor) -> None:
        return None

    def add_(self, flat, state, *, place, std, over, stream):
        fresh = torch.zeros_like(flat)
        stream.add_(fresh, std=std * math.sqrt(1 + (1 + self.c) ** 2))
        remembered = place == 1 and state is not None
        flat += fresh - self.c * state if remembered else fresh
        flat /= over
        return fresh if place == 0 else None


class Paired(Constant, kind="paired"):
    """Two steps a charge."""

    c: float = 0.5

    @property
    def block(self) -> int:
        return 2

    @property
    def needs_separation(self) -> int:
        return 1

    def process(self) -> PairProcess:
        return PairProcess(self.c)


class FreePaired(Paired, kind="free_paired"):
    """The same; a block that was cut off goes on for free."""

    restart: ClassVar[Any] = "free"


for schedule in (Paired, FreePaired):
    schedule.__module__ = f"dppipe.noise.{schedule.kind}"  # as a file of the package would be


class Recording:
    """A stream that adds 1, 2, 3, ... standard deviations."""

    def __init__(self) -> None:
        self.calls: list[float] = []

    def add_(self, flat, std, *, over=1.0):
        self.calls.append(std)
        flat += len(self.calls) * std
        return flat.div_(over)


class Regression(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(3, 1)

    def per_sample_loss(self, batch):
        return (self.line(batch[0]).squeeze(1) - batch[1]) ** 2

    def training_step(self, batch, batch_idx):
        return self.per_sample_loss(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Dies(pl.Callback):
    """Kills its own process after a step."""

    def __init__(self, after: int) -> None:
        self.left = after

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


def parts(noise, sampler=None, clipping=None) -> PrivateParts:
    budget = Budget(epsilon=50.0, delta=1e-6)
    return PrivateParts(sampler or FullBatch(), clipping or Flat(), noise, Pld(), budget)


def dataset() -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(
        torch.randn(RECORDS, 3, generator=generator), torch.randn(RECORDS, generator=generator)
    )


def fit(run_dir: Path, noise, *, steps: int, dies_after: int | None = None, resume=None) -> None:
    private = DPCallback(
        sampler=FullBatch(),
        noise=noise,
        budget=Budget(epsilon=50.0, delta=1e-6),
        run_dir=None if resume is not None else run_dir,
        resume=resume,
        checkpoint_every=1,
    )
    others = [Dies(dies_after)] if dies_after else []
    trainer = pl.Trainer(
        max_steps=steps,
        callbacks=[private, *others],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
    )
    checkpoint = resume.last_checkpoint if resume is not None else None
    trainer.fit(Regression(), private.loader(dataset()), ckpt_path=checkpoint, weights_only=True)


def rows(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "ledger.jsonl").read_text().splitlines()]


def test_a_block_of_two_steps_is_charged_once_and_costs_one_gaussian():
    plan = plan_privacy(parts(Paired(noise_multiplier=4.0)), name="t", records=RECORDS, steps=6)
    independent = plan_privacy(
        parts(Constant(noise_multiplier=4.0)), name="t", records=RECORDS, steps=3
    )
    assert [plan.charges(step) for step in range(1, 7)] == [1, 0, 1, 0, 1, 0]
    assert plan.epsilon == independent.epsilon
    assert plan.charged_runs() == [(4.0, 1.0, 3)]


def test_the_second_step_of_a_block_takes_a_part_of_the_first_ones_noise_back():
    process, stream = PairProcess(0.5), Recording()
    size = math.sqrt(1 + 1.5**2)
    first, second = torch.zeros(4), torch.zeros(4)
    state = process.add_(first, process.init(first), place=0, std=1.0, over=1.0, stream=stream)
    process.add_(second, state, place=1, std=1.0, over=1.0, stream=stream)
    assert first == pytest.approx(torch.full((4,), size))
    assert second == pytest.approx(torch.full((4,), 2 * size - 0.5 * size))


def test_one_record_moves_the_whitened_block_by_at_most_what_its_noise_is_scaled_to():
    """The sensitivity of C over all contributions of norm 1 is sqrt(1 + (1 + c)^2)."""
    generator = torch.Generator().manual_seed(1)
    for c in (0.0, 0.5, 1.0):
        largest = 0.0
        for _ in range(500):
            u = torch.nn.functional.normalize(torch.randn(2, 3, generator=generator), dim=1)
            moved = torch.stack([u[0], c * u[0] + u[1]])
            largest = max(largest, float(moved.norm()))
        assert largest <= math.sqrt(1 + (1 + c) ** 2) + 1e-6


def test_a_run_of_correlated_noise_is_whole_and_verifies(tmp_path):
    fit(tmp_path / "run", Paired(noise_multiplier=4.0), steps=4)
    assert [row["count"] for row in rows(tmp_path / "run")] == [1, 0, 1, 0]
    assert verify_ledger(tmp_path / "run").intact


@pytest.mark.parametrize(
    ("noise", "steps", "counts"),
    [
        # The rest of the first block is lost: step 3 begins, and pays, a new one.
        (Paired(noise_multiplier=4.0), [1, 3, 4], [1, 1, 0]),
        # The block goes on with fresh noise, which its own proof covers.
        (FreePaired(noise_multiplier=4.0), [1, 2, 3, 4], [1, 0, 1, 0]),
    ],
    ids=["pays", "free"],
)
def test_a_run_that_was_cut_off_in_a_block_follows_its_restart_rule(tmp_path, noise, steps, counts):
    run_dir = tmp_path / "run"
    killed = subprocess.run([sys.executable, __file__, str(run_dir), noise.kind], check=False)
    assert killed.returncode == -signal.SIGKILL
    fit(run_dir, noise, steps=4, resume=RunDirectory.open(run_dir))
    assert [row["step"] for row in rows(run_dir)] == steps
    assert [row["count"] for row in rows(run_dir)] == counts
    plan = (run_dir / "plan.json").read_bytes()
    assert read_ledger(run_dir / "ledger.jsonl", plan=plan).torn == b""


def test_a_resumed_block_starts_from_fresh_noise_that_remembers_nothing():
    process, stream = PairProcess(0.5), Recording()
    resumed = torch.zeros(4)
    state = process.add_(resumed, process.init(resumed), place=1, std=1.0, over=1.0, stream=stream)
    assert resumed == pytest.approx(torch.full((4,), math.sqrt(1 + 1.5**2)))
    assert state is None


@pytest.mark.parametrize(
    ("chosen", "match"),
    [
        ({"sampler": Poisson(sample_rate=0.1)}, "draws each step anew"),
        ({"sampler": Shuffle(expected_batch_size=8)}, "draws each step anew"),
        ({"clipping": Adaptive()}, "correlated over a block"),
    ],
)
def test_correlated_noise_is_refused_with_parts_that_its_proof_does_not_cover(chosen, match):
    with pytest.raises(PrivacyRefusal, match=match):
        plan_privacy(
            parts(Paired(noise_multiplier=4.0), **chosen), name="t", records=RECORDS, steps=4
        )


def test_a_plugin_cannot_state_a_block_and_pay_for_fewer_steps():
    class Sly(Paired, kind="sly"):
        """Says that one charge covers two steps."""

    Sly.__module__ = "dppipe.spec.kinds.plugins.sly"
    with pytest.raises(PrivacyRefusal, match="claims a proof"):
        plan_privacy(parts(Sly(noise_multiplier=4.0)), name="t", records=RECORDS, steps=4)


def test_verify_finds_a_block_that_was_charged_too_rarely(tmp_path):
    run_dir = tmp_path / "run"
    fit(run_dir, Constant(noise_multiplier=4.0), steps=4)
    plan = json.loads((run_dir / "plan.json").read_text())
    assert verify_ledger(run_dir).intact
    plan["block"] = 2
    (run_dir / "plan.json").write_text(json.dumps(plan))
    assert not verify_ledger(run_dir).intact


if __name__ == "__main__":
    chosen = {schedule.kind: schedule for schedule in (Paired, FreePaired)}[sys.argv[2]]
    fit(Path(sys.argv[1]), chosen(noise_multiplier=4.0), steps=4, dies_after=1)
