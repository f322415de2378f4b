"""A private holdout: nothing but its own metrics depends on its records, whoever looks at them."""

from __future__ import annotations

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import dppipe
from dppipe.clipping import Flat
from dppipe.noise import Constant
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.sampling import FullBatch

RECORDS = 8
STEPS = 4


class Records(Dataset):
    """Pairs of inputs and classes, of which some can't be read."""

    def __init__(self, *, broken=(), scale=1.0):
        generator = torch.Generator().manual_seed(0)
        self.x = scale * torch.randn(RECORDS, 4, generator=generator)
        self.broken = broken

    def __len__(self):
        return RECORDS

    def __getitem__(self, index):
        if index in self.broken:
            raise ValueError("a record's value")
        return self.x[index], index % 2


class Validates(pl.LightningModule):
    """Returns and logs its validation loss."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 2)

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        loss = nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
        self.log("val_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def fit(tmp_path):
    """Fit a module with a private holdout, which is validated after every step; returns the callback."""

    def go(module, scored, *, holdout="private", callbacks=(), **options):
        private = dppipe.DPCallback(
            sampler=FullBatch(),
            clipping=Flat(max_grad_norm=0.1),
            noise=Constant(noise_multiplier=1.0),
            accountant=Rdp(),
            budget=dppipe.Budget(epsilon=1e4, delta=1e-5),
            run_dir=tmp_path / f"run{len(list(tmp_path.iterdir()))}",
            holdout=holdout,
        )
        given = {"max_steps": STEPS, "accelerator": "cpu", "logger": False, "num_sanity_val_steps": 0, "val_check_interval": 1}
        for part in ("checkpointing", "progress_bar", "model_summary"):
            given[f"enable_{part}"] = False
        trainer = pl.Trainer(callbacks=[private, *callbacks], **given | options)
        trainer.fit(module, private.loader(Records()), scored)
        return private

    return go


def scored(**options):
    return DataLoader(Records(**options), batch_size=2)


def test_a_record_that_can_t_be_read_in_the_sanity_check_ends_no_run(fit):
    assert fit(Validates(), scored(broken=[0, 1, 2]), num_sanity_val_steps=2).outcome.status == "completed"


def test_a_record_that_can_t_be_read_in_a_dictionary_of_loaders_ends_no_run(fit):
    loaders = {"left": scored(broken=[3]), "right": scored()}
    assert fit(Validates(), loaders).outcome.status == "completed"


def test_a_record_that_can_t_be_read_by_persistent_workers_ends_no_run(fit):
    loader = DataLoader(Records(broken=[7]), batch_size=2, num_workers=1, persistent_workers=True)
    assert fit(Validates(), loader, num_sanity_val_steps=1).outcome.status == "completed"


def test_a_module_with_a_validation_step_trains_without_validation_data(fit):
    assert fit(Validates(), None, val_check_interval=None).outcome.status == "completed"


class Worst(Validates):
    """Replaces a buffer by the worst loss that it has seen, and stops when that is large."""

    def __init__(self):
        super().__init__()
        self.register_buffer("worst", torch.zeros(()))

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        loss = super().validation_step(batch, batch_idx)
        self.worst = torch.maximum(self.worst, loss.detach())
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.trainer.should_stop = self.trainer.should_stop or bool(self.worst > 5)


class WorstOnALayer(Worst):
    """The same in an attribute of torch's own layer."""

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        loss = Validates.validation_step(self, batch, batch_idx)
        self.layer.worst = max(getattr(self.layer, "worst", 0.0), float(loss))
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.trainer.should_stop = self.trainer.should_stop or getattr(self.layer, "worst", 0.0) > 5


@pytest.mark.parametrize("module", [Worst, WorstOnALayer])
@pytest.mark.parametrize(("holdout", "steps"), [("private", STEPS), ("public", 2)])
def test_what_validation_keeps_on_the_module_stops_training_on_a_public_holdout_alone(fit, module, holdout, steps):
    assert fit(module(), scored(scale=1e3), holdout=holdout).outcome.steps == steps
