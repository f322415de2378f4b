"""From a Lightning module to its network and the loss of each example.

There are three kinds of modules: dppipe's own (`SpecModule`), one with a method
`per_sample_loss(batch) -> [B]`, and any other, whose `training_step` is evaluated on batches of one
example. In the last case one example's contribution is bounded whatever the loss does, since no
other example is there when it is computed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dppipe.engine import singleton_loss
from dppipe.engine.losses import SingletonLoss
from dppipe.errors import UsageError
from dppipe.lightning.module import SpecModule

if TYPE_CHECKING:
    import pytorch_lightning as pl

    from dppipe.engine.contracts import PerSampleLoss
    from dppipe.lightning.isolation.replica import Replica


def network_and_loss(module: pl.LightningModule) -> tuple[nn.Module, PerSampleLoss]:
    """Return the network whose parameters are trained and its per-sample loss."""
    if isinstance(module, SpecModule):
        return module.network, module.objective.per_sample_loss
    if hasattr(module, "per_sample_loss"):
        return module, _offered_loss
    step: Callable[..., Any] = type(module).training_step  # the instance's own is the private step
    index = index_argument(step)

    def loss_of_one(model: nn.Module, batch: Any) -> Tensor:
        return _loss_in(step(model, batch, *index))

    return module, singleton_loss(loss_of_one)


def from_clean_state(loss: PerSampleLoss, replica: Replica) -> PerSampleLoss:
    """Return a loss that restores the replica before each evaluation.

    Guarantee: of rows that are evaluated one after the other, none sees what another has written.
    """
    if not replica.has_own_code:
        return loss
    if isinstance(loss, SingletonLoss):
        return SingletonLoss(from_clean_state(loss.step, replica))

    def restored(model: nn.Module, batch: Any) -> Tensor:
        replica.restore()
        return loss(model, batch)

    return restored


def run_on_example(module: nn.Module, loss: PerSampleLoss, row: Any) -> None:
    """Evaluate the user's own module on a made-up example, where it would have seen a batch.

    Hooks may read what a `training_step` keeps, such as a list of losses. They find the losses of
    made-up examples there.
    """
    with torch.enable_grad():  # a step may take gradients of its own
        loss(module, row)


def index_argument(step: Callable[..., Any]) -> tuple[int, ...]:
    """Return the batch index as an argument tuple: `(0,)` if a step takes one, else `()`."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = 0
    for parameter in inspect.signature(step).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return (0,)
        taken += parameter.kind in positional
    return (0,) if taken > 2 else ()


def _loss_in(returned: Any) -> Tensor:
    loss = returned.get("loss") if isinstance(returned, dict) else returned
    if not isinstance(loss, Tensor):
        got = type(loss).__name__
        raise UsageError(
            f"training_step: expected a loss, got {got}. Return a tensor, or a dict with 'loss'."
        )
    return loss


def _offered_loss(model: nn.Module, batch: Any) -> Tensor:
    losses: Tensor = model.per_sample_loss(batch)  # type: ignore[operator]
    return losses
