"""Where metrics come from: what a fit shows, in real Trainers and through the whole command."""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger, TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanMetric, Metric

import dppipe
from dppipe.clipping import Flat
from dppipe.errors import PrivacyRefusal
from dppipe.noise import Constant
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.runs.metric_names import validation_name
from dppipe.sampling import Poisson


class Plain(pl.LightningModule):
    """A module that logs in validation alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def per_sample_loss(self, batch):
        x, y = batch
        return nn.functional.cross_entropy(self.layer(x), y, reduction="none")

    def training_step(self, batch, batch_idx):
        return self.per_sample_loss(batch).mean()

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.per_sample_loss(batch).mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


KEPT: list[float] = []
"""Losses that `Leaky` keeps where nobody can undo it."""


class Leaky(Plain):
    """A module that logs un-noised functions of training records wherever Lightning allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = MeanMetric()
        KEPT.clear()

    def per_sample_loss(self, batch):
        losses = super().per_sample_loss(batch)
        with torch.no_grad():
            KEPT.append(float(losses.detach().mean()))
            self.mean.update(losses.detach())
        return losses

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("running_loss", sum(KEPT) / len(KEPT), prog_bar=True)

    def on_train_epoch_end(self):
        self.log("train_loss_epoch", sum(KEPT) / len(KEPT))
        self.log_dict({"train_mean": self.mean, "val_loss": 99.0})


class LeakyCallback(pl.Callback):
    """A callback that logs in each of the ways that Lightning gives it."""

    def setup(self, trainer, pl_module, stage):
        self.kept = pl_module.log

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.log("by_callback", 1.0)
        self.log_dict({"by_callback_too": 2.0})
        pl_module.log("by_module", 3.0)
        self.kept("by_kept", 3.0)
        for logger in trainer.loggers:
            logger.log_metrics({"by_logger": 4.0, "val/loss": 5.0}, step=trainer.global_step)


@pytest.fixture
def dataset():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(200, 8, generator=generator)
    return TensorDataset(inputs, torch.randint(3, (200,), generator=generator))


@pytest.fixture
def fit(tmp_path, dataset):
    """Fit a module with the callback in a real Trainer; returns the trainer and the callback."""

    def go(
        module,
        *,
        holdout="public",
        callbacks=(),
        validates=True,
        budget=True,
        loaders=None,
        **options,
    ):
        private = dppipe.DPCallback(
            sampler=Poisson(sample_rate=0.25, physical_batch_size=64),
            clipping=Flat(max_grad_norm=1.0),
            noise=Constant(noise_multiplier=2.0),
            accountant=Rdp(),
            budget=dppipe.Budget(epsilon=8.0, delta=1e-5) if budget else None,
            run_dir=tmp_path / "run",
            holdout=holdout,
        )
        given = {
            "max_steps": 8,
            "accelerator": "cpu",
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "log_every_n_steps": 1,
        }
        trainer = pl.Trainer(callbacks=[private, *callbacks], **given | options)
        scored = (loaders or DataLoader(dataset, batch_size=50)) if validates else None
        trainer.fit(module, private.loader(dataset), scored)
        return trainer, private

    return go


PRIVACY = {
    f"privacy/{name}"
    for name in (
        "epsilon",
        "epsilon_remaining",
        "max_grad_norm",
        "noise_multiplier",
        "sample_rate",
        "steps_remaining",
    )
}
"""All that dppipe itself shows in a user's loggers."""


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """Read the scalars of TensorBoard files back."""
    events = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    events.Reload()
    return {
        tag: [(s.step, s.value) for s in events.Scalars(tag)] for tag in events.Tags()["scalars"]
    }


def columns(logger: CSVLogger) -> set[str]:
    """Read the names in a CSV logger's file back, without the step that it adds itself and without
    what dppipe logs of the budget."""
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        return set(next(csv.reader(file))) - {"step"} - PRIVACY


def shown(run: Path) -> set[str]:
    """Return every metric's name in a run directory, but for the curves of the budget."""
    summary = set(json.loads((run / "summary.json").read_text())["metrics"])
    return summary | {tag for tag in scalars(run) if not tag.startswith("privacy/")}


@pytest.mark.parametrize(
    ("holdout", "named"), [("public", "val/loss"), ("private", "nonprivate/val/loss")]
)
def test_what_is_logged_outside_validation_is_in_no_file_and_no_metric(
    fit, tmp_path, holdout, named
):
    own = [CSVLogger(tmp_path / "csv"), TensorBoardLogger(tmp_path / "tb")]
    trainer, private = fit(Leaky(), holdout=holdout, logger=own)
    assert KEPT, "the module kept losses, or nothing would be there to log"
    assert set(private.outcome.metrics) == {named}
    assert shown(tmp_path / "run") == {named, "public/lr"}
    assert columns(own[0]) == {named, "public/epoch"}
    assert set(scalars(Path(own[1].log_dir))) - PRIVACY == {named, "public/epoch"}
    left = {*trainer.callback_metrics, *trainer.logged_metrics, *trainer.progress_bar_metrics}
    left -= PRIVACY
    assert left == ({"val_loss", named} if holdout == "public" else {named})
    assert all(value != 99.0 for _, value in scalars(Path(own[1].log_dir))[named])


@pytest.mark.parametrize("holdout", ["public", "private"])
def test_whatever_a_callback_logs_is_muted_or_marked(fit, tmp_path, holdout):
    own = CSVLogger(tmp_path / "csv")
    trainer, _ = fit(Plain(), holdout=holdout, logger=own, callbacks=[LeakyCallback()])
    named = validation_name("loss", holdout=holdout)
    assert columns(own) == {named, "public/epoch", "nonprivate/by_logger", "nonprivate/val/loss"}
    assert shown(tmp_path / "run") == {named, "public/lr"}
    assert not any("by_" in name for name in trainer.callback_metrics)


class Careless(Plain):
    """A module, and a callback with it, that log while training what Lightning wouldn't take."""

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("vector", torch.zeros(len(KEPT) + 2))

    def on_train_end(self):
        self.log("late", 1.0)

    def configure_callbacks(self):
        careless = pl.Callback()
        careless.on_train_batch_end = lambda *args: careless.log("vector", torch.zeros(2))
        return [careless]


def test_what_is_muted_ends_no_run_whatever_it_is(fit):
    _, private = fit(Careless())
    assert private.outcome.status == "completed"


def test_the_console_shows_no_metric_of_a_private_holdout_unmarked(fit, capsys):
    fit(Leaky(), holdout="private", enable_progress_bar=True)
    console = "".join(capsys.readouterr())
    assert "Epoch" in console, "the bar was there"
    assert "loss" not in console.replace("nonprivate/val/loss", "")


def test_the_progress_bar_shows_metrics_of_a_public_holdout(fit, capsys):
    fit(Leaky(), enable_progress_bar=True)
    console = "".join(capsys.readouterr())
    assert "val_loss" in console
    assert "running_loss" not in console


def test_loggers_module_and_trainer_are_left_as_they_were(fit, tmp_path):
    own, module = CSVLogger(tmp_path / "csv"), Plain()
    trainer, _ = fit(
        module,
        logger=own,
        callbacks=[pl.callbacks.EarlyStopping("val_loss")],
        num_sanity_val_steps=0,
    )
    loop = trainer.fit_loop.epoch_loop
    assert not {"log", "log_dict", "training_step", "backward"} & set(vars(module))
    assert "log_metrics" not in vars(own)
    assert "log" not in vars(loop._results)
    assert "run" not in vars(loop.val_loop)
    assert "metrics" not in vars(loop.val_loop._results)
    assert trainer.num_sanity_val_steps == 0


def test_a_refused_fit_leaves_the_loggers_as_they_were(fit, tmp_path):
    own, module = CSVLogger(tmp_path / "csv"), Plateau()
    with pytest.raises(PrivacyRefusal):
        fit(module, logger=own, holdout="private")
    assert "log_metrics" not in vars(own)
    assert "log" not in vars(module)


def test_learning_rates_are_public_facts_wherever_they_are_logged(fit, tmp_path):
    own = [CSVLogger(tmp_path / "csv"), TensorBoardLogger(tmp_path / "tb", default_hp_metric=False)]
    monitor = pl.callbacks.LearningRateMonitor(log_momentum=True, log_weight_decay=True)
    _, private = fit(Plain(), logger=own, callbacks=[monitor])
    rates = {"public/lr-SGD", "public/lr-SGD-momentum", "public/lr-SGD-weight_decay"}
    assert columns(own[0]) == {"val/loss", "public/epoch"} | rates
    assert set(scalars(Path(own[1].log_dir))) - PRIVACY == {"val/loss", "public/epoch"} | rates
    assert set(private.outcome.metrics) == {"val/loss"}


class WithHyperparameters(Plain):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.save_hyperparameters()


def test_the_placeholder_of_tensorboards_hyperparameters_keeps_its_name(fit, tmp_path):
    own = TensorBoardLogger(tmp_path / "tb")
    fit(WithHyperparameters(), logger=own)
    assert scalars(Path(own.log_dir))["hp_metric"] == [(0, -1.0)]


class TwoGroups(Plain):
    def configure_optimizers(self):
        groups = [
            {"params": [self.layer.weight], "lr": 0.5},
            {"params": [self.layer.bias], "lr": 0.2},
        ]
        optimizer = torch.optim.SGD(groups)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def test_the_learning_rate_curve_has_the_rate_of_each_step_and_group(fit, tmp_path):
    fit(TwoGroups(), max_steps=3)
    curves = scalars(tmp_path / "run")
    assert [step for step, _ in curves["public/lr/0"]] == [1, 2, 3]
    assert [rate for _, rate in curves["public/lr/0"]] == pytest.approx([0.5, 0.25, 0.125])
    assert [rate for _, rate in curves["public/lr/1"]] == pytest.approx([0.2, 0.1, 0.05])


class TwoHoldouts(Plain):
    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.log("val_loss", self.per_sample_loss(batch).mean(), on_step=True, on_epoch=True)


def test_several_holdouts_keep_their_suffixes(fit, tmp_path, dataset):
    own = CSVLogger(tmp_path / "csv")
    loaders = [DataLoader(dataset, batch_size=100), DataLoader(dataset, batch_size=50)]
    follows = pl.callbacks.EarlyStopping("val_loss/dataloader_idx_1", patience=9)
    _, private = fit(TwoHoldouts(), logger=own, loaders=loaders, callbacks=[follows])
    means = {"val/loss_epoch/dataloader_idx_0", "val/loss_epoch/dataloader_idx_1"}
    steps = {"val/loss_step/dataloader_idx_0", "val/loss_step/dataloader_idx_1"}
    assert columns(own) == means | steps | {"public/epoch"}
    assert means <= set(private.outcome.metrics)


class Plateau(Plain):
    """A module whose learning rate follows a metric."""

    monitor = "val_loss"

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, patience=0, threshold=1e9, factor=0.1
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": self.monitor},
        }


def test_a_scheduler_on_a_private_holdout_is_refused_and_nothing_is_written(fit, tmp_path):
    with pytest.raises(
        PrivacyRefusal, match=r"ReduceLROnPlateau follows 'val_loss'.*Declare the holdout public"
    ):
        fit(Plateau(), holdout="private")
    assert not (tmp_path / "run").exists()


def test_a_scheduler_may_follow_a_public_holdout(fit):
    trainer, private = fit(Plateau(), num_sanity_val_steps=0)
    assert private.outcome.status == "completed"
    assert trainer.optimizers[0].param_groups[0]["lr"] < 0.5


@pytest.mark.filterwarnings(
    "ignore:ReduceLROnPlateau conditioned on metric val_loss:RuntimeWarning"
)
def test_a_scheduler_that_comes_before_the_first_validation_waits_for_it(fit):
    trainer, private = fit(Plateau(), check_val_every_n_epoch=2)
    assert private.outcome.status == "completed"
    assert trainer.lr_scheduler_configs[0].strict


def test_a_scheduler_of_a_baseline_may_follow_its_private_holdout(fit):
    trainer, private = fit(Plateau(), holdout="private", budget=False)
    assert trainer.optimizers[0].param_groups[0]["lr"] < 0.5
    assert set(private.outcome.metrics) == {"nonprivate/val/loss"}


class OnTraining(Plateau, Leaky):
    monitor = "train_loss_epoch"


@pytest.mark.parametrize("steps", [0, 2], ids=["without sanity steps", "with sanity steps"])
def test_a_scheduler_on_a_training_metric_is_refused_before_the_first_charge(fit, tmp_path, steps):
    with pytest.raises(
        PrivacyRefusal, match=r"ReduceLROnPlateau.*'train_loss_epoch'.*Validation logs: val_loss"
    ):
        fit(OnTraining(), num_sanity_val_steps=steps)
    assert not (tmp_path / "run").exists()


FOLLOWERS = {
    "EarlyStopping": lambda metric, _: pl.callbacks.EarlyStopping(metric, patience=99),
    "ModelCheckpoint": lambda metric, path: pl.callbacks.ModelCheckpoint(
        path / "kept", monitor=metric
    ),
}


@pytest.mark.parametrize("kind", list(FOLLOWERS))
def test_a_callback_on_a_training_metric_is_refused_where_the_holdout_is_public(
    fit, tmp_path, kind
):
    follower = FOLLOWERS[kind]("train_loss_epoch", tmp_path)
    options = {"enable_checkpointing": kind == "ModelCheckpoint"}
    with pytest.raises(PrivacyRefusal, match=rf"{kind}.*validation logs.*'train_loss_epoch'"):
        fit(Leaky(), callbacks=[follower], **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", list(FOLLOWERS))
def test_a_callback_may_follow_a_public_holdout_by_the_modules_own_name(fit, tmp_path, kind):
    follower = FOLLOWERS[kind]("val_loss", tmp_path)
    _, private = fit(Leaky(), callbacks=[follower], enable_checkpointing=kind == "ModelCheckpoint")
    assert private.outcome.status == "completed"
    best = follower.best_score if kind == "EarlyStopping" else follower.best_model_score
    assert 0 < float(best) < 50


def test_a_metric_that_nothing_can_log_is_refused(fit, tmp_path):
    with pytest.raises(PrivacyRefusal, match=r"Validation logs: none"):
        fit(Plain(), callbacks=[pl.callbacks.EarlyStopping("val_loss")], validates=False)
    assert not (tmp_path / "run").exists()


class Follows(pl.Callback):
    """A callback of a user's own that has Lightning's usual attribute."""

    monitor = "val_loss"


def test_any_callback_that_follows_a_private_metric_is_refused(fit):
    with pytest.raises(PrivacyRefusal, match="Follows follows 'val_loss'"):
        fit(Plain(), holdout="private", callbacks=[Follows()])


@pytest.mark.parametrize("holdout", ["public", "private"])
def test_checkpoints_may_be_ranked_by_the_step(fit, tmp_path, holdout):
    keeps = pl.callbacks.ModelCheckpoint(tmp_path / "kept", monitor="step", mode="max")
    fit(Plain(), holdout=holdout, callbacks=[keeps], enable_checkpointing=True)
    assert keeps.best_model_path


def test_no_checkpoints_name_holds_a_metric_of_a_private_holdout(fit, tmp_path):
    keeps = pl.callbacks.ModelCheckpoint(
        tmp_path / "kept", filename="{step}-{val_loss:.6f}", save_top_k=-1
    )
    fit(Plain(), holdout="private", callbacks=[keeps], enable_checkpointing=True)
    names = [path.name for path in (tmp_path / "kept").iterdir()]
    assert names
    assert all("val_loss=0.000000" in name for name in names)


class Peeks(pl.Callback):
    """A callback without a `monitor` that looks at the Trainer's metrics all the same."""

    def __init__(self, seen):
        self.look = seen.update  # a set that isn't the callback's own: it isn't undone

    def on_validation_end(self, trainer, pl_module):
        self.look(["validated", *trainer.callback_metrics, *trainer.progress_bar_metrics])

    def on_train_batch_end(self, trainer, *args):
        self.on_validation_end(trainer, None)


def test_callbacks_find_no_metric_of_a_private_holdout(fit):
    seen = set()
    fit(Plain(), holdout="private", callbacks=[Peeks(seen)])
    assert seen - PRIVACY == {"validated"}


class Steers(Plain):
    """A module that would change its training by what it sees in validation."""

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            self.trainer.should_stop = True
            self.trainer.optimizers[0].param_groups[0]["lr"] = 1e-9


def test_validation_on_a_private_holdout_can_neither_stop_nor_slow_training(fit, tmp_path):
    trainer, private = fit(Steers(), holdout="private")
    assert private.outcome.status == "completed"
    assert private.outcome.steps == 8
    rates = [rate for _, rate in scalars(tmp_path / "run")["public/lr"]]
    assert rates == pytest.approx([0.1] * 8)
    assert trainer.optimizers[0].param_groups[0]["lr"] == 0.1


def test_validation_on_a_public_holdout_may_stop_training(fit):
    _, private = fit(Steers(), max_steps=30)
    assert private.outcome.status == "completed"
    assert private.outcome.stopped_early
    assert private.outcome.steps < 30


class Breaks(Metric):
    """A metric that can't be computed once training has begun."""

    def __init__(self):
        super().__init__()
        self.broken = False
        self.add_state("total", torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, value):
        self.total += value

    def compute(self):
        if self.broken:
            raise ValueError("no such value")
        return self.total


class BrokenMetric(Plain):
    def __init__(self):
        super().__init__()
        self.metric = Breaks()

    def validation_step(self, batch, batch_idx):
        self.metric.broken = not self.trainer.sanity_checking
        self.metric.update(self.per_sample_loss(batch).mean())
        self.log("val_total", self.metric, on_step=False, on_epoch=True)


def test_a_metric_that_cannot_be_computed_on_a_private_holdout_ends_no_run(fit):
    _, private = fit(BrokenMetric(), holdout="private")
    assert private.outcome.status == "completed"
    assert dict(private.outcome.metrics) == {}


class NotANumber(Plain):
    def validation_step(self, batch, batch_idx):
        self.log(f"val_{self.trainer.global_step}", math.nan)


@pytest.mark.parametrize("holdout", ["public", "private"])
def test_metrics_that_are_no_numbers_and_names_that_change_end_no_run(fit, tmp_path, holdout):
    own = CSVLogger(tmp_path / "csv")
    _, private = fit(NotANumber(), holdout=holdout, logger=own)
    assert private.outcome.status == "completed"
    assert len(private.outcome.metrics) == 2
    assert set(json.loads((tmp_path / "run" / "summary.json").read_text())["metrics"].values()) == {
        None
    }


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("val_loss", "val/loss"),
        ("val/loss", "val/loss"),
        ("validation_loss", "val/loss"),
        ("valid/acc", "val/acc"),
        ("value", "val/value"),
        ("val_", "val/val_"),
        ("loss", "val/loss"),
        ("privacy/epsilon", "val/privacy/epsilon"),
        ("nonprivate/loss", "val/nonprivate/loss"),
        ("public/lr", "val/public/lr"),
    ],
)
def test_validation_names_say_whose_records_they_are(given, name):
    assert validation_name(given, holdout="public") == name
    assert validation_name(given, holdout="private") == f"nonprivate/{name}"


# The same through the whole command, on a module that a spec names.


@pytest.fixture
def own_modules(monkeypatch):
    """Let specs name the modules of this file."""
    monkeypatch.setitem(sys.modules, "provenance_modules", sys.modules[__name__])


def named(module: type) -> tuple[str, ...]:
    return (f"model={{class_path: provenance_modules.{module.__name__}}}", "optimizer=null")


@pytest.mark.parametrize(
    ("holdout", "metric"), [("public", "val/loss"), ("private", "nonprivate/val/loss")]
)
def test_a_run_shows_only_what_validation_logged(run, own_modules, holdout, metric):
    finished = run(*named(Leaky), f"data.holdout={holdout}")
    assert finished.exit_code == 0, finished.output
    assert shown(finished.path) == {metric, "public/lr"}
    assert metric in finished.output
    assert not any(
        name in finished.output for name in ("train_loss", "running_loss", "train_mean", "99.0")
    )


def test_a_run_whose_scheduler_follows_a_private_holdout_is_refused(run, own_modules):
    finished = run(*named(Plateau), "data.holdout=private")
    assert finished.exit_code == 3
    assert "ReduceLROnPlateau follows 'val_loss'" in finished.output.replace("\n", " ")
    assert not finished.path.exists()


def test_a_run_whose_scheduler_follows_a_training_metric_is_refused(run, own_modules):
    finished = run(*named(OnTraining))
    assert finished.exit_code == 3
    assert "train_loss_epoch" in finished.output
    assert not finished.path.exists()


def test_a_run_whose_scheduler_follows_a_public_holdout_trains(run, own_modules):
    finished = run(*named(Plateau), "train.validate_every=2", "train.steps=45")
    assert finished.exit_code == 0, finished.output
    rates = [rate for _, rate in scalars(finished.path)["public/lr"]]
    assert rates[0] == 0.5
    assert rates[-1] < 0.5


def test_the_learning_rate_of_a_spec_is_a_public_curve(run):
    finished = run("optimizer={kind: sgd, lr: 0.5, schedule: {kind: linear}}")
    rates = scalars(finished.path)["public/lr"]
    assert [step for step, _ in rates] == list(range(1, 11))
    assert rates[0][1] > rates[-1][1]
    assert not any("lr" in name for name in finished.summary["metrics"])
