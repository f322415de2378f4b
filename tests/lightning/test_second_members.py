"""The second of a kind is treated like the first: ways to log, metrics, loggers, loaders, groups, monitors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from torch.utils.data import DataLoader
from torchmetrics import MaxMetric, MeanMetric, MetricCollection

from dppipe.errors import PrivacyRefusal
from dppipe.runs.metric_names import validation_name

from .test_metric_provenance import (
    PRIVACY,
    Plain,
    Plateau,
    TwoGroups,
    columns,
    dataset,
    fit,
    scalars,
    shown,
)

__all__ = ["dataset", "fit"]

HOOKS = [
    "on_train_start",
    "on_train_epoch_start",
    "on_train_batch_start",
    "on_before_zero_grad",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "on_train_batch_end",
    "on_train_epoch_end",
    "on_train_end",
]
"""Hooks of training that a module and a callback both have."""


def log_both(hook: str, *, log: Callable[..., None], log_dict: Callable[..., None]) -> None:
    """Log by both ways, two values by the second."""
    log(f"{hook}_log", 1.0)
    log_dict({f"{hook}_first": 2.0, f"{hook}_second": 3.0})


class LogsEverywhere(Plain):
    """A module that logs in every hook of training, by both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.reached: set[str] = set()

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        log_both("training_step", log=self.log, log_dict=self.log_dict)
        return super().training_step(batch, batch_idx)

    def logs(self, hook: str) -> None:
        self.reached.add(hook)
        log_both(hook, log=self.log, log_dict=self.log_dict)


class CallbackLogsEverywhere(pl.Callback):
    """A callback that does the same, by its own `log` and by those that it kept of the module."""

    def __init__(self) -> None:
        self.reached: set[str] = set()
        self.kept: tuple[Any, Any] | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self.kept = pl_module.log, pl_module.log_dict

    def logs(self, hook: str) -> None:
        self.reached.add(hook)
        log_both(f"own_{hook}", log=self.log, log_dict=self.log_dict)
        # Lightning itself raises on the module's own `log` at the end of training.
        if self.kept is not None and hook != "on_train_end":
            log_both(f"kept_{hook}", log=self.kept[0], log_dict=self.kept[1])


def with_hook(hook: str) -> Callable[..., None]:
    return lambda self, *args, **kwargs: self.logs(hook)


for each in HOOKS:
    setattr(LogsEverywhere, each, with_hook(each))
    setattr(CallbackLogsEverywhere, each, with_hook(each))


@pytest.mark.parametrize("holdout", ["public", "private"])
def test_neither_log_nor_log_dict_gets_a_value_out_of_any_hook_of_training(fit, tmp_path, holdout):
    loggers = [CSVLogger(tmp_path / "first"), CSVLogger(tmp_path / "second")]
    module, callback = LogsEverywhere(), CallbackLogsEverywhere()
    trainer, private = fit(
        module, holdout=holdout, callbacks=[callback], logger=loggers, max_steps=4
    )
    assert module.reached == callback.reached == set(HOOKS)
    named = validation_name("loss", holdout=holdout)
    assert set(private.outcome.metrics) == {named}
    assert shown(tmp_path / "run") == {named, "public/lr"}
    for logger in loggers:
        assert columns(logger) == {named, "public/epoch"}
    left = {*trainer.callback_metrics, *trainer.logged_metrics, *trainer.progress_bar_metrics}
    assert left <= {"val_loss", named} | PRIVACY


class NoNames(Plain):
    """A module that logs, by the second way, what has no names."""

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.log_dict(None)


def test_what_log_dict_can_not_take_ends_no_run_either(fit):
    _, private = fit(NoNames(), max_steps=3)
    assert private.outcome.status == "completed"


class Collected(Plain):
    """A module that logs a collection of two metrics, and two values at once, in validation."""

    def __init__(self) -> None:
        super().__init__()
        self.collection = MetricCollection({"val_mean": MeanMetric(), "val_max": MaxMetric()})

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        losses = self.per_sample_loss(batch)
        self.collection.update(losses)
        self.log_dict(self.collection, on_step=False, on_epoch=True)
        self.log_dict({"val_a": losses.mean(), "b": losses.max()})


@pytest.mark.parametrize("holdout", ["public", "private"])
@pytest.mark.parametrize("loaders", [1, 2])
def test_every_metric_of_a_collection_and_every_holdout_is_named_in_every_logger(
    fit, tmp_path, dataset, holdout, loaders
):
    own = [CSVLogger(tmp_path / "first"), CSVLogger(tmp_path / "second")]
    given = [DataLoader(dataset, batch_size=100) for _ in range(loaders)]
    _, private = fit(Collected(), holdout=holdout, logger=own, loaders=given, max_steps=4)
    suffixes = [""] if loaders == 1 else ["/dataloader_idx_0", "/dataloader_idx_1"]
    expected = set()
    for name in ("mean", "max", "a", "b"):
        expected |= {validation_name(name + suffix, holdout=holdout) for suffix in suffixes}
    assert set(private.outcome.metrics) == expected
    assert shown(tmp_path / "run") == expected | {"public/lr"}
    for logger in own:
        assert columns(logger) == expected | {"public/epoch"}


def test_the_settings_of_every_parameter_group_are_public_facts_in_every_logger(fit, tmp_path):
    own = [CSVLogger(tmp_path / "first"), CSVLogger(tmp_path / "second")]
    monitor = pl.callbacks.LearningRateMonitor(log_momentum=True, log_weight_decay=True)
    fit(TwoGroups(), logger=own, callbacks=[monitor], max_steps=3)
    rates = set()
    for group in ("pg1", "pg2"):
        rates |= {
            f"public/lr-SGD/{group}{setting}" for setting in ("", "-momentum", "-weight_decay")
        }
    for logger in own:
        assert columns(logger) == {"val/loss", "public/epoch"} | rates
    assert {"public/lr/0", "public/lr/1"} <= set(scalars(tmp_path / "run"))


class MarksInLoggers(pl.Callback):
    """A callback that writes two values into each logger itself."""

    def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
        for logger in trainer.loggers:
            logger.log_metrics({"first": 1.0, "second": 2.0}, step=trainer.global_step)


def test_every_value_that_a_callback_writes_into_any_logger_is_marked(fit, tmp_path):
    own = [CSVLogger(tmp_path / "first"), CSVLogger(tmp_path / "second")]
    fit(Plain(), logger=own, callbacks=[MarksInLoggers()], max_steps=3)
    for logger in own:
        assert columns(logger) == {
            "val/loss",
            "public/epoch",
            "nonprivate/first",
            "nonprivate/second",
        }


class SecondPlateau(Plain):
    """A module with two schedulers, of which the second follows a metric."""

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
        fixed = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        follows = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        return [optimizer], [{"scheduler": fixed}, {"scheduler": follows, "monitor": "val_loss"}]


@pytest.mark.parametrize("module", [Plateau, SecondPlateau])
def test_whichever_scheduler_follows_a_private_holdout_is_refused(fit, tmp_path, module):
    with pytest.raises(PrivacyRefusal, match="ReduceLROnPlateau follows 'val_loss'"):
        fit(module(), holdout="private")
    assert not (tmp_path / "run").exists()


def test_whichever_callback_follows_a_training_metric_is_refused_by_name(fit, tmp_path):
    followers = [
        pl.callbacks.EarlyStopping(metric) for metric in ("val_loss", "train_loss", "train_other")
    ]
    with pytest.raises(PrivacyRefusal) as refused:
        fit(Plain(), callbacks=followers)
    assert "'train_loss'" in str(refused.value)
    assert "'train_other'" in str(refused.value)
    assert not Path(tmp_path / "run").exists()
