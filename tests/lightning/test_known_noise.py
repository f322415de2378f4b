"""An optimizer that asks is told the noise that its gradient really has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import TensorDataset

import dppipe
from dppipe.clipping import AdaClip, Adaptive, Flat
from dppipe.errors import DppipeError
from dppipe.noise import Constant
from dppipe.noise import Linear as Falling
from dppipe.noise.base import NoiseSchedule
from dppipe.optim import AdamBC
from dppipe.sampling import Poisson
from dppipe.spec import spec_from_text

COORDINATES = 20_000
SPEC = """
version: 1
name: known-noise
data: {kind: digits, holdout: public}
model: logistic
optimizer: adam_bc
sampler: {kind: poisson, expected_batch_size: 64}
budget: {epsilon: 3.0, delta: 1.0e-5}
train: {steps: 3}
"""


class OnlyNoise(pl.LightningModule):
    """A module whose gradient is 0, so that what the optimizer gets is noise."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(COORDINATES))
        self.told: list[float] = []
        self.seen: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return 0.0 * self.weight.sum() + 0.0 * batch[0].sum()

    def configure_optimizers(self) -> Any:
        return AdamBC(lr=1e-4).build(self.parameters())

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        assert self.weight.grad is not None
        self.told.append(optimizer.param_groups[0]["gradient_noise_std"])
        self.seen.append(self.weight.grad.std().item())


def fitted(tmp_path: Path, *, steps: int = 3, **parts: Any) -> OnlyNoise:
    given: dict[str, Any] = {
        "sampler": Poisson(sample_rate=0.05),
        "clipping": Flat(max_grad_norm=2.0),
        "noise": Constant(noise_multiplier=3.0),
        "budget": dppipe.Budget(epsilon=8.0, delta=1e-5),
        "run_dir": tmp_path / "run",
        "summary": False,
    }
    callback = dppipe.DPCallback(**given | parts)
    module = OnlyNoise()
    trainer = pl.Trainer(
        max_steps=steps,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
    )
    trainer.fit(module, callback.loader(TensorDataset(torch.randn(200, 2))))
    return module


@pytest.mark.parametrize(
    ("parts", "first"),
    [
        ({}, 3.0 * 2.0 / 10),
        ({"noise": Falling(noise_multiplier=3.0, end=0.2)}, 3.0 * 2.0 / 10),
        ({"noise": Constant(noise_multiplier=30.0, mechanism="laplace")}, 30 * 2**0.5 * 2.0 / 10),
        ({"clipping": Adaptive(max_grad_norm=2.0, unclipped_num_std=5.0)}, None),
    ],
    ids=["constant", "falling", "laplace", "adaptive bound"],
)
def test_the_stated_noise_is_that_of_the_gradient(
    tmp_path: Path, parts: dict[str, Any], first: float | None
) -> None:
    # The standard deviation of 20,000 draws is off by 0.8 % (Laplace; 0.5 % for Gaussian): a false
    # alarm needs 7 of those.
    module = fitted(tmp_path, **parts)
    assert len(module.told) == 3
    assert module.seen == pytest.approx(module.told, rel=0.056)
    if first is not None:
        assert module.told[0] == pytest.approx(first)


def test_without_a_budget_the_stated_noise_is_none(tmp_path: Path) -> None:
    module = fitted(tmp_path, budget=None)
    assert module.told == module.seen == [0.0] * 3


def test_noise_of_a_size_of_its_own_for_each_coordinate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DppipeError, match=r"clipping\.kind: expected noise of one size"):
        fitted(tmp_path, clipping=AdaClip())
    assert not list(tmp_path.glob("run/ledger.jsonl"))
    with pytest.raises(DppipeError, match=r"got 'adaclip'.*optimizer: adam"):
        spec_from_text(SPEC + "clipping: adaclip\n")


def test_correlated_noise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoiseSchedule, "block", property(lambda _: 4))
    with pytest.raises(DppipeError, match="expected independent noise beside optimizer 'adam_bc'"):
        spec_from_text(SPEC)


def test_other_optimizers_and_runs_without_a_budget_take_any_noise() -> None:
    spec_from_text(SPEC.replace("adam_bc", "adam") + "clipping: adaclip\n")
    private = "budget: {epsilon: 3.0, delta: 1.0e-5}"
    spec_from_text(SPEC.replace(private, "budget: none") + "clipping: adaclip\n")
