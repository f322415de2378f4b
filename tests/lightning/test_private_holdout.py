"""A private holdout: nothing but its own metrics depends on its records, whoever looks at them."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import ClassVar

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

import dppipe
import dppipe.learners.gating.sources as sources_module
from dppipe.clipping import Flat
from dppipe.errors import PrivacyRefusal
from dppipe.noise import Constant
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.sampling import FullBatch, Poisson

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


class Silent:
    """Noise that isn't there, so that weights can be compared."""

    def add_(self, flat, *, std, over=1.0):
        return flat.div_(over)


@pytest.fixture
def fit(tmp_path):
    """Fit a module with a private holdout, which is validated after every step; returns the callback."""

    def go(
        module,
        scored,
        *,
        holdout="private",
        callbacks=(),
        first=False,
        relation="zero_out",
        **options,
    ):
        private = dppipe.DPCallback(
            sampler=FullBatch()
            if relation == "zero_out"
            else Poisson(sample_rate=0.5, expected_batch_size=4),
            clipping=Flat(max_grad_norm=0.1),
            noise=Constant(noise_multiplier=1.0),
            accountant=Rdp(),
            budget=dppipe.Budget(epsilon=1e4, delta=1e-5, relation=relation),
            run_dir=tmp_path / f"run{len(list(tmp_path.iterdir()))}",
            holdout=holdout,
        )
        given = {
            "max_steps": STEPS,
            "accelerator": "cpu",
            "logger": False,
            "num_sanity_val_steps": 0,
            "val_check_interval": 1,
        }
        for part in ("checkpointing", "progress_bar", "model_summary"):
            given[f"enable_{part}"] = False
        ordered = [*callbacks, private] if first else [private, *callbacks]
        trainer = pl.Trainer(callbacks=ordered, **given | options)
        trainer.fit(module, private.loader(Records()), scored)
        return private

    return go


def scored(**options):
    return DataLoader(Records(**options), batch_size=2)


def test_a_record_that_can_t_be_read_in_the_sanity_check_ends_no_run(fit):
    assert (
        fit(Validates(), scored(broken=[0, 1, 2]), num_sanity_val_steps=2).outcome.status
        == "completed"
    )


def test_a_record_that_can_t_be_read_in_a_dictionary_of_loaders_ends_no_run(fit):
    loaders = {"left": scored(broken=[3]), "right": scored()}
    assert fit(Validates(), loaders).outcome.status == "completed"


def test_a_record_that_can_t_be_read_by_persistent_workers_ends_no_run(fit):
    loader = DataLoader(Records(broken=[7]), batch_size=2, num_workers=1, persistent_workers=True)
    assert fit(Validates(), loader, num_sanity_val_steps=1).outcome.status == "completed"


class Stream(IterableDataset):
    def __iter__(self):
        yield from (Records()[index] for index in range(5))
        raise ValueError("a record's value")


def test_a_stream_that_can_t_be_read_to_its_end_ends_no_run(fit):
    assert fit(Validates(), DataLoader(Stream(), batch_size=2)).outcome.status == "completed"


class Reloads(Validates):
    def val_dataloader(self):
        return scored(broken=[3])


def test_a_record_that_can_t_be_read_by_a_loader_that_is_made_again_ends_no_run(fit):
    assert fit(Reloads(), None, reload_dataloaders_every_n_epochs=1).outcome.status == "completed"


def test_what_is_no_loader_of_torchs_is_refused_on_a_private_holdout(fit):
    with pytest.raises(
        PrivacyRefusal,
        match="val_dataloaders: expected a DataLoader for a private holdout, got Stream",
    ):
        fit(Validates(), Stream())


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


class WorstInAHook(Validates):
    """The same in a list that a forward hook has captured, in a function's own name and on the class."""

    of_the_class: ClassVar[list] = []

    def __init__(self):
        super().__init__()
        self.of_the_class.clear()
        outputs, worst = [], 0.0
        self.layer.register_forward_hook(
            lambda layer, inputs, output: outputs.append(float(output.detach().abs().max()))
        )

        def add(value):
            nonlocal worst
            worst = max(worst, value)
            return max([worst, *outputs])

        self.add = add

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(
            nn.functional.linear(batch[0], self.layer.weight), batch[1]
        )

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        loss = float(super().validation_step(batch, batch_idx))
        self.add(loss)
        self.of_the_class.append(loss)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.trainer.should_stop = (
            self.trainer.should_stop or max([self.add(0.0), *self.of_the_class]) > 5
        )


@pytest.mark.parametrize("module", [Worst, WorstOnALayer, WorstInAHook])
@pytest.mark.parametrize(("holdout", "steps"), [("private", STEPS), ("public", 2)])
def test_what_validation_keeps_on_the_module_stops_training_on_a_public_holdout_alone(
    fit, module, holdout, steps
):
    assert fit(module(), scored(scale=1e3), holdout=holdout).outcome.steps == steps


class Freezes(Validates):
    """Freezes its weights where validation shows a large loss."""

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        loss = super().validation_step(batch, batch_idx)
        if loss > 5:
            self.layer.weight.requires_grad_(False)
            self.layer.bias.grad = torch.full_like(self.layer.bias, 1e6)


def test_what_validation_freezes_is_trained_all_the_same_on_a_private_holdout(fit):
    module = Freezes()
    start = module.layer.weight.detach().clone()
    private = fit(module, scored(scale=1e3))
    assert private.outcome.status == "completed"
    assert module.layer.weight.requires_grad
    assert not torch.equal(module.layer.weight, start)
    assert module.layer.bias.grad is None or module.layer.bias.grad.abs().max() < 1e5


class KeepsOutputs(pl.Callback):
    """Keeps what validation returns, and stops and slows training when a value was large."""

    of_the_class: ClassVar[list] = []

    def __init__(self):
        self.seen = []
        self.of_the_class.clear()
        captured = [0.0]
        self.add = lambda value: captured.append(value) or max(captured)

    def on_validation_batch_end(
        self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0
    ):
        self.seen.append(float(outputs))
        self.add(float(outputs))
        self.of_the_class.append(float(outputs))
        trainer.last_output = float(outputs)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        worst = max(
            [self.add(0.0), *self.seen, *self.of_the_class, getattr(trainer, "last_output", 0.0)]
        )
        if worst > 5:
            trainer.should_stop = True


@pytest.mark.parametrize(("holdout", "steps"), [("private", STEPS), ("public", 2)])
def test_what_a_callback_keeps_of_validation_stops_training_on_a_public_holdout_alone(
    fit, holdout, steps
):
    private = fit(Validates(), scored(scale=1e3), holdout=holdout, callbacks=[KeepsOutputs()])
    assert private.outcome.steps == steps


def test_a_callback_that_raises_on_a_batch_without_a_readable_record_ends_no_run(fit):
    private = fit(Validates(), scored(broken=[2, 3]), callbacks=[KeepsOutputs()])
    assert private.outcome.status == "completed"


def set_limit(trainer):
    trainer.fit_loop.epoch_loop.max_steps = 2


def set_epochs(trainer):
    trainer.fit_loop.max_epochs = 1


def set_batches(trainer):
    trainer.limit_train_batches = 0
    trainer.fit_loop.max_batches = 0


def set_counters(trainer):
    trainer.fit_loop.epoch_loop.automatic_optimization.optim_progress.optimizer.step.total.completed = 99


def drop_callbacks(trainer):
    trainer.callbacks.clear()


def step_scheduler(trainer):
    trainer.lr_scheduler_configs[0].scheduler.step()


def set_momentum(trainer):
    for state in trainer.optimizers[0].state.values():
        state["momentum_buffer"].fill_(99.0)


CHANGES = [
    set_limit,
    set_epochs,
    set_batches,
    set_counters,
    drop_callbacks,
    step_scheduler,
    set_momentum,
]


class Changes(Validates):
    """Changes something of its Trainer in validation."""

    def __init__(self, change=None):
        super().__init__()
        self.change = change

    def on_validation_epoch_end(self):
        if self.change is not None:
            self.change(self.trainer)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.filterwarnings("ignore:.*lr_scheduler.step:UserWarning")
def test_nothing_that_private_validation_changes_on_the_trainer_changes_training(
    fit, change, monkeypatch
):
    monkeypatch.setattr(sources_module, "GaussianStream", lambda *args, **options: Silent())
    plain, changed = Changes(), Changes(change)
    fit(plain, scored())
    assert fit(changed, scored()).outcome.steps == STEPS
    assert torch.allclose(plain.layer.weight, changed.layer.weight, atol=1e-7)


class TwoGroups(Validates):
    """Has a learning rate for each of its parameters, and changes one of them in validation."""

    def __init__(self, changed):
        super().__init__()
        self.changed = changed
        self.rates = []

    def configure_optimizers(self):
        groups = [
            {"params": [self.layer.weight], "lr": 0.1},
            {"params": [self.layer.bias], "lr": 0.2},
        ]
        return torch.optim.SGD(groups)

    def on_train_batch_start(self, batch, batch_idx):
        self.rates.append([group["lr"] for group in self.trainer.optimizers[0].param_groups])

    def on_validation_epoch_end(self):
        self.trainer.optimizers[0].param_groups[self.changed]["lr"] = 99.0


@pytest.mark.parametrize("changed", [0, 1])
def test_every_parameter_group_has_its_own_settings_back_after_private_validation(fit, changed):
    module = TwoGroups(changed)
    fit(module, scored())
    assert module.rates == [[0.1, 0.2]] * STEPS


class Loud(Validates):
    """Prints, warns and logs what it sees, and so does its data set."""

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        if float(batch[0].abs().max()) > 100:  # no made-up row
            say("step")

    def on_validation_epoch_end(self):
        say("hook")


class LoudCallback(pl.Callback):
    def on_validation_end(self, trainer, pl_module):
        say("callback")


class LoudRecords(Records):
    def __getitem__(self, index):
        say("record")
        return super().__getitem__(index)


def say(where):
    print(f"printed by a {where}")
    sys.stderr.write(f"written by a {where}")
    warnings.warn(f"warned by a {where}", stacklevel=1)
    logging.getLogger("clinic").warning("logged by a %s", where)


def test_nothing_is_heard_of_private_validation(fit, capsys, caplog):
    loader = DataLoader(LoudRecords(scale=1e3), batch_size=2)
    assert (
        fit(Loud(), loader, callbacks=[LoudCallback()], num_sanity_val_steps=1).outcome.status
        == "completed"
    )
    heard = capsys.readouterr()
    assert " by a " not in heard.out + heard.err + caplog.text


class Swaps(pl.Callback):
    """Validates other weights than it trains, as callbacks that average weights do."""

    def on_validation_start(self, trainer, pl_module):
        self.trained = pl_module.layer.weight.detach().clone()
        pl_module.layer.weight.data.fill_(9.0)

    def on_validation_end(self, trainer, pl_module):
        pl_module.layer.weight.data.copy_(self.trained)


@pytest.mark.parametrize("first", [True, False])
def test_a_callback_may_swap_weights_for_validation_wherever_it_stands(fit, first):
    module = Validates()
    fit(module, scored(), callbacks=[Swaps()], first=first)
    assert float(module.layer.weight.detach().abs().max()) < 5


@pytest.mark.parametrize(
    ("relation", "limit"), [("zero_out", 0.5), ("add_remove", 2), ("add_remove", 1.0)]
)
def test_a_limit_on_validation_that_no_secret_count_decides_is_taken(fit, relation, limit):
    assert (
        fit(Validates(), scored(), relation=relation, limit_val_batches=limit).outcome.status
        == "completed"
    )


@pytest.mark.parametrize("limit", [0.1, 0.5])
def test_a_share_of_the_batches_is_refused_where_the_number_of_records_is_protected(fit, limit):
    with pytest.raises(PrivacyRefusal, match="limit_val_batches: expected a number of batches"):
        fit(Validates(), scored(), relation="add_remove", limit_val_batches=limit)
