"""Each option, hook, callback, profiler and precision that a private Trainer may not have is refused.

Where Lightning has a list of them, the list is Lightning's: a member that is new there is tested too.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.precision.precision import _PRECISION_INPUT_STR
from pytorch_lightning import callbacks, profilers
from pytorch_lightning.core.hooks import DataHooks

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.lightning.refusals import PRECISIONS, refuse_unsafe_optimizers, refuse_unsafe_trainer


def refused(
    module: pl.LightningModule | None = None,
    *,
    holdout: str = "public",
    relation: str = "zero_out",
    **options: Any,
) -> str:
    """Return what is said against a Trainer with these options; nothing if it may train."""
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(accelerator="cpu", max_steps=3, **quiet | options)
    return fault_of(trainer, module, holdout=holdout, relation=relation)


def fault_of(trainer: Any, module: Any = None, *, holdout: Any, relation: Any) -> str:
    try:
        refuse_unsafe_trainer(
            trainer, module or pl.LightningModule(), holdout=holdout, relation=relation
        )
    except PrivacyRefusal as error:
        return str(error)
    return ""


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("accumulate_grad_batches", {"accumulate_grad_batches": 2}),
    ("gradient_clip_val", {"gradient_clip_val": 1.0}),
    ("gradient_clip_val", {"gradient_clip_val": 0.5, "gradient_clip_algorithm": "value"}),
    ("overfit_batches", {"overfit_batches": 2}),
    ("overfit_batches", {"overfit_batches": 0.5}),
    ("limit_train_batches", {"limit_train_batches": 1}),
    ("limit_train_batches", {"limit_train_batches": 0.5}),
    ("fast_dev_run", {"fast_dev_run": True}),
    ("fast_dev_run", {"fast_dev_run": 2}),
    ("min_steps", {"min_steps": 2}),
    ("min_epochs", {"min_epochs": 2}),
    ("detect_anomaly", {"detect_anomaly": True}),
    ("max_time", {"max_time": {"minutes": 1}}),
]


@pytest.mark.parametrize(("named", "options"), OPTIONS, ids=str)
def test_each_option_is_refused_by_its_name(named: str, options: dict[str, Any]) -> None:
    assert named in refused(**options)


def test_a_plain_trainer_may_train() -> None:
    assert refused() == ""
    assert refused(limit_train_batches=1.0, min_epochs=1, min_steps=0) == ""


def test_all_that_is_refused_is_named_at_once() -> None:
    said = refused(accumulate_grad_batches=2, gradient_clip_val=1.0, min_epochs=2)
    assert said.count("Trainer: ") == 3


@pytest.mark.parametrize("precision", get_args(_PRECISION_INPUT_STR))
def test_each_precision_is_refused_but_those_in_which_noise_is_whole(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pl.Trainer, "precision", property(lambda trainer: precision))
    assert ("precision" in refused()) == (precision not in PRECISIONS)
    assert set(PRECISIONS) == {"32-true", "64-true", "bf16-mixed"}


HOOKS = [name for name in vars(DataHooks) if "transfer" in name]


@pytest.mark.parametrize("hook", HOOKS)
def test_each_hook_that_could_mix_examples_is_refused(hook: str) -> None:
    assert len(HOOKS) == 3
    own = type("Own", (pl.LightningModule,), {hook: lambda self, batch, *args: batch})
    assert hook in refused(own())


TUNERS = [callbacks.BatchSizeFinder, callbacks.LearningRateFinder]


@pytest.mark.parametrize("kind", [*TUNERS, lambda: callbacks.GradientAccumulationScheduler({0: 2})])
def test_each_callback_that_trains_on_its_own_is_refused(kind: Callable[[], Any]) -> None:
    assert type(kind()).__name__ in refused(callbacks=[kind()])


FOLLOWERS = [
    lambda: callbacks.EarlyStopping("val_loss"),
    lambda: callbacks.ModelCheckpoint(monitor="val_loss"),
]


@pytest.mark.parametrize("make", FOLLOWERS)
def test_each_callback_that_follows_a_metric_is_refused_on_a_private_holdout(
    make: Callable[[], Any],
) -> None:
    checkpoints = isinstance(make(), callbacks.ModelCheckpoint)
    said = refused(holdout="private", callbacks=[make()], enable_checkpointing=checkpoints)
    assert "val_loss" in said
    assert refused(holdout="public", callbacks=[make()], enable_checkpointing=checkpoints) == ""


CLOCKS = [
    lambda: callbacks.Timer(timedelta(minutes=1)),
    lambda: callbacks.ModelCheckpoint(train_time_interval=timedelta(minutes=1)),
]


@pytest.mark.parametrize("make", CLOCKS)
def test_each_callback_that_goes_by_the_clock_is_refused(make: Callable[[], Any]) -> None:
    checkpoints = isinstance(make(), callbacks.ModelCheckpoint)
    assert "how long steps take" in refused(callbacks=[make()], enable_checkpointing=checkpoints)


PROFILERS = [
    getattr(profilers, name)
    for name in profilers.__all__
    if name not in ("PassThroughProfiler", "Profiler", "XLAProfiler")
]


@pytest.mark.parametrize("kind", PROFILERS)
def test_each_profiler_is_refused(kind: type[Any]) -> None:
    assert f"profiler: expected none: {kind.__name__}" in refused(profiler=kind())


@pytest.mark.parametrize("limit", [0.01, 0.5, 0.99])
def test_a_share_of_validation_batches_is_refused_where_it_would_show_the_number_of_records(
    limit: float,
) -> None:
    own = {"limit_val_batches": limit}
    assert "limit_val_batches" in refused(holdout="private", relation="add_remove", **own)
    for holdout, relation in (
        ("public", "add_remove"),
        ("private", "zero_out"),
        ("private", "replace_one"),
    ):
        assert refused(holdout=holdout, relation=relation, **own) == ""
    for whole in (0.0, 1.0, 0, 3):
        assert refused(holdout="private", relation="add_remove", limit_val_batches=whole) == ""


def test_several_processes_need_the_private_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pl.Trainer, "world_size", property(lambda trainer: 2))
    assert "strategy: expected dppipe.PrivateDDP()" in refused()


WEIGHT = [torch.nn.Parameter(torch.zeros(1))]
_MockOptimizer = type("_MockOptimizer", (), {})
OPTIMIZERS: dict[str, tuple[list[Any], type[Exception] | None]] = {
    "one": ([torch.optim.SGD(WEIGHT)], None),
    "two": ([torch.optim.SGD(WEIGHT), torch.optim.Adam(WEIGHT)], PrivacyRefusal),
    "three": ([torch.optim.SGD(WEIGHT)] * 3, PrivacyRefusal),
    "none": ([], PrivacyRefusal),
    "a stand-in": ([_MockOptimizer()], UsageError),
    "lbfgs": ([torch.optim.LBFGS(WEIGHT)], PrivacyRefusal),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_first_order_optimizer_is_taken_and_nothing_else(name: str) -> None:
    optimizers, error = OPTIMIZERS[name]
    trainer: Any = SimpleNamespace(optimizers=optimizers)
    if error is None:
        refuse_unsafe_optimizers(trainer)
    else:
        with pytest.raises(error, match="configure_optimizers"):
            refuse_unsafe_optimizers(trainer)
