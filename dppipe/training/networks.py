"""What is trained: from a Lightning module to its network and the loss of each example on its own.

Three kinds of modules, in this order: dppipe's own (`SpecModule`), one that offers `per_sample_loss(batch) -> [B]`, and any
other, whose `training_step` is then evaluated on batches of one example. In the last case one example's contribution is
bounded whatever the loss does, since no other example is there when it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from dppipe.engine import singleton_loss
from dppipe.training.module import SpecModule
from dppipe.training.patches import Patches

if TYPE_CHECKING:
    import pytorch_lightning as pl

    from dppipe.engine.contracts import PerSampleLoss


def network_and_loss(module: pl.LightningModule) -> tuple[nn.Module, PerSampleLoss]:
    """Give the network whose parameters are trained and its per-sample loss."""
    if isinstance(module, SpecModule):
        return module.network, module.objective.per_sample_loss
    if hasattr(module, "per_sample_loss"):
        return module, _offered_loss
    step: Callable[..., Any] = type(module).training_step  # the instance's own is the private step while it is fitted

    def loss_of_one(model: nn.Module, batch: Any) -> Tensor:
        given = step(model, batch, 0)
        loss: Tensor = given["loss"] if isinstance(given, dict) else given
        return loss

    return module, singleton_loss(loss_of_one)


def _offered_loss(model: nn.Module, batch: Any) -> Tensor:
    losses: Tensor = model.per_sample_loss(batch)  # type: ignore[operator]
    return losses


@contextmanager
def silenced(module: pl.LightningModule) -> Iterator[None]:
    """Let `log` and `log_dict` do nothing: what a training step logs are un-noised functions of private records."""
    patches = Patches()
    patches.put(module, "log", lambda *args, **kwargs: None)
    patches.put(module, "log_dict", lambda *args, **kwargs: None)
    try:
        yield
    finally:
        patches.undo()
