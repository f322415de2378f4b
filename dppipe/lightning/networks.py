"""What is trained: from a Lightning module to its network and the loss of each example on its own.

Three kinds of modules, in this order: dppipe's own (`SpecModule`), one that offers `per_sample_loss(batch) -> [B]`, and any
other, whose `training_step` is then evaluated on batches of one example. In the last case one example's contribution is
bounded whatever the loss does, since no other example is there when it is computed.
"""

from __future__ import annotations

import inspect
import io
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
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
    """Return a loss each of whose evaluations finds the replica as it was at the start.

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
    """Return the index of a batch as an argument, where a step takes one beside the batch."""
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


@contextmanager
def unheard() -> Iterator[None]:
    """Drop what user code prints, warns of or logs while it sees records: functions of them without noise."""
    handle = logging.Logger.handle
    thread = threading.get_ident()

    def dropped(logger: logging.Logger, record: logging.LogRecord) -> None:
        if threading.get_ident() != thread:
            handle(logger, record)

    logging.Logger.handle = dropped  # type: ignore[assignment, method-assign]
    try:
        with (
            redirect_stdout(_Mute(sys.stdout)),
            redirect_stderr(_Mute(sys.stderr)),
            warnings.catch_warnings(action="ignore"),
        ):
            yield
    finally:
        logging.Logger.handle = handle  # type: ignore[method-assign]


class _Mute(io.TextIOBase):
    """A stream that drops what this thread writes; a progress bar's own thread still gets through."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        """Write what comes from another thread."""
        if threading.get_ident() != self._thread:
            return int(self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush what comes from another thread."""
        if threading.get_ident() != self._thread:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
