"""Modules that keep, log, follow or refuse what they see: mistakes that somebody could make in good faith.

`KEPT` is where some of them keep things outside of themselves; it is emptied when a module is made.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torchmetrics
from redteam.modules import Net, Offering, Ordinary
from redteam.records import CLASSES, FEATURES
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

KEPT: list[float] = []


class Keeping(Ordinary):
    """Keeps its losses and logs their mean when the epoch ends, as is done for curves."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        self.losses.append(loss.item())
        return loss

    def on_train_epoch_end(self) -> None:
        self.log("train_loss_epoch", sum(self.losses) / max(1, len(self.losses)))
        self.losses.clear()


class KeepingElsewhere(Ordinary):
    """Keeps its losses in a list outside of itself, and logs a running mean after each step."""

    def __init__(self) -> None:
        super().__init__()
        KEPT.clear()

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        KEPT.append(loss.item())
        return loss

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.log("running_loss", sum(KEPT) / max(1, len(KEPT)))


class Measuring(Offering):
    """Updates a torchmetric on training examples and logs it beside the others."""

    def __init__(self) -> None:
        super().__init__()
        self.accuracy = torchmetrics.classification.MulticlassAccuracy(CLASSES)

    def per_sample_loss(self, batch: Any) -> Tensor:
        x, y = batch
        scores = self.net(x)
        self.accuracy.update(scores.detach(), y)
        return cross_entropy(scores, y, reduction="none")

    def on_train_epoch_end(self) -> None:
        self.log("train_accuracy", self.accuracy)


class MeasuringInSteps(Ordinary):
    """The same in `training_step`."""

    def __init__(self) -> None:
        super().__init__()
        self.accuracy = torchmetrics.classification.MulticlassAccuracy(CLASSES)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        scores = self.net(x)
        self.accuracy.update(scores.detach(), y)
        self.log("train_accuracy", self.accuracy, on_epoch=True)
        return cross_entropy(scores, y)


class Averaging(Offering):
    """Keeps a running mean of its inputs in a buffer, from the second step on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(FEATURES))
        self.calls = 0

    def per_sample_loss(self, batch: Any) -> Tensor:
        if self.trainer.global_step > 0:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(0.1 * batch[0].nan_to_num().mean(0).clamp(-9, 9))
        return super().per_sample_loss(batch)


class Normalising(Offering):
    """Has a BatchNorm that is put into train mode by a hook, after the checks."""

    def __init__(self) -> None:
        super().__init__()
        norm = nn.BatchNorm1d(2, affine=False).eval()
        self.net = nn.Sequential(
            nn.Linear(FEATURES, 6),
            nn.Unflatten(1, (2, 3)),
            norm,
            nn.Flatten(),
            nn.Linear(6, CLASSES),
        )

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self.net[2].train(self.global_step > 0)


class Remembering(Ordinary):
    """Compares each example with those before it: a memory bank, as in contrastive learning."""

    def __init__(self) -> None:
        super().__init__()
        self.bank: Tensor | None = None

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        if self.bank is not None:
            loss = (
                loss
                + (batch[0].nan_to_num() - self.bank).tanh().square().mean()
                * self.net[0].weight.sum()
            )
        self.bank = batch[0].nan_to_num().detach().clone()
        return loss


class Following(Ordinary):
    """Lowers its learning rate when a metric stops falling."""

    monitor = "val_loss"

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, patience=0, threshold=0.0, factor=0.1
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": self.monitor, "interval": "step"},
        }


class FollowingTraining(KeepingElsewhere):
    """Lowers its learning rate by a running mean of its training losses."""

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, patience=0, threshold=0.0, factor=0.1
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": "running_loss", "interval": "step"},
        }


class Choosy(Ordinary):
    """Checks its inputs, and raises on what it doesn't like."""

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        if bool((batch[0] > 2.9).all()):
            raise ValueError(f"a patient with {batch[0][0, 0]}?")
        return super().training_step(batch, batch_idx)


class ChoosyOffering(Offering):
    """The same for a whole batch at once."""

    def per_sample_loss(self, batch: Any) -> Tensor:
        if bool((batch[0] > 2.9).all(1).any()):
            raise ValueError("one of these patients can't be")
        return super().per_sample_loss(batch)


class Leaving(Offering):
    """Ends the program where it doesn't like its inputs."""

    def per_sample_loss(self, batch: Any) -> Tensor:
        if bool((batch[0] > 2.9).all(1).any()):
            sys.exit("one of these patients can't be")
        return super().per_sample_loss(batch)


class RaisingLate(Offering):
    """Raises while gradients are computed: after the losses, and after the gradients of the last layer."""

    def per_sample_loss(self, batch: Any) -> Tensor:
        x, y = batch
        hidden = self.net[1](self.net[0](x))
        if hidden.requires_grad:
            hidden.register_hook(_refuse_large(x))
        return cross_entropy(self.net[2](hidden), y, reduction="none")


def _refuse_large(x: Tensor) -> Callable[[Tensor], None]:
    def look(gradient: Tensor) -> None:
        if bool((x > 2.9).all(-1).any()):
            raise ValueError("these gradients can't be")

    return look


class Alarmed(Offering):
    """Warns of what it finds odd."""

    def per_sample_loss(self, batch: Any) -> Tensor:
        if bool((batch[0] > 2.9).any()):
            self.say("large values: did you forget to scale?")
        return super().per_sample_loss(batch)

    def say(self, text: str) -> None:
        warnings.warn(text, stacklevel=2)


class Logging(Alarmed):
    """The same in a log."""

    def say(self, text: str) -> None:
        logging.getLogger("clinic").warning(text)


class Printing(Alarmed):
    """The same on the console."""

    def say(self, text: str) -> None:
        print(text)


class CentringNet(Net):
    """A network that keeps a running mean of its inputs in a buffer, once its weights have left their first values."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(FEATURES))
        self.start = self.layers[0].bias.detach().clone()

    def forward(self, x: Tensor) -> Tensor:
        if self.training and not torch.equal(self.layers[0].bias, self.start):
            with torch.no_grad():
                self.mean.mul_(0.9).add_(0.1 * x.nan_to_num().mean(0).clamp(-9, 9))
        return super().forward(x)
