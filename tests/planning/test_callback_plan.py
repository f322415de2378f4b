"""A DPCallback that is given a plan: parts that differ from it are refused before any charge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import dppipe
from dppipe.clipping import Flat
from dppipe.errors import PrivacyRefusal
from dppipe.noise import Constant
from dppipe.planning.privacy_plan import plan_privacy
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.accountants import Pld, Rdp
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.runs.directory import RunDirectory
from dppipe.sampling import Poisson

STEPS = 3


class Linear(pl.LightningModule):
    """An ordinary module."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        return nn.functional.cross_entropy(self.layer(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def callback(tmp_path: Path, **changes: Any) -> dppipe.DPCallback:
    given = {
        "sampler": Poisson(sample_rate=0.05, physical_batch_size=4),
        "clipping": Flat(),
        "noise": Constant(noise_multiplier=2.0),
        "accountant": Rdp(),
        "budget": dppipe.Budget(epsilon=4.0, delta=1e-5),
        "run_dir": tmp_path / "run",
    }
    return dppipe.DPCallback(**given | changes)


def fit(private: dppipe.DPCallback) -> None:
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(100, 4), torch.randint(2, (100,)))
    trainer = pl.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[private],
    )
    trainer.fit(Linear(), private.loader(dataset))


def plan_of(private: dppipe.DPCallback) -> StepPlan:
    return plan_privacy(private.parts, name="run", records=100, steps=STEPS)


def test_equal_parts_train_under_the_given_plan(tmp_path: Path) -> None:
    plan = plan_of(callback(tmp_path))
    fit(callback(tmp_path, plan=plan))
    ledger = read_ledger(tmp_path / "run" / "ledger.jsonl", plan=plan.to_json())
    assert ledger.rows == STEPS


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"sampler": Poisson(sample_rate=0.5)}, "sample_rate"),
        ({"clipping": Flat(max_grad_norm=9.0)}, "max_grad_norm"),
        ({"noise": Constant(noise_multiplier=0.1)}, "noise"),
        ({"accountant": Pld()}, "accountant"),
        ({"budget": dppipe.Budget(epsilon=9.0, delta=1e-5)}, "budget_epsilon"),
        ({"budget": None}, "private"),
        ({"reproducible_seed": 1}, "reproducible"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_part_that_differs_from_the_plan_is_refused_before_any_charge(
    tmp_path: Path, changes: dict[str, Any], field: str
) -> None:
    plan = plan_of(callback(tmp_path))
    with pytest.raises(PrivacyRefusal, match=rf"plan\.{field}: expected .*, got "):
        fit(callback(tmp_path, plan=plan, **changes))
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_is_refused_with_other_parts_and_charges_nothing(tmp_path: Path) -> None:
    plan = plan_of(callback(tmp_path))
    fit(callback(tmp_path, plan=plan))
    run = RunDirectory.open(tmp_path / "run")
    before = run.ledger.read_bytes()
    private = callback(
        tmp_path, plan=plan, resume=run, noise=Constant(noise_multiplier=0.1), run_dir=None
    )
    with pytest.raises(PrivacyRefusal, match=r"plan\.noise"):
        fit(private)
    assert run.ledger.read_bytes() == before
