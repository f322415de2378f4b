"""Modules of users: ordinary ones, and ones that keep, show or mix what they see.

Each is a mistake that somebody could make in good faith. `KEPT` is where some of them keep things outside of themselves; a
module that uses it empties it when it is made.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytorch_lightning as pl
import torch
import torchmetrics
from neighbours import CLASSES, FEATURES, VOCABULARY
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import default_collate

from dppipe.sampling import Poisson

KEPT: list[float] = []


class Ordinary(pl.LightningModule):
    """An ordinary module: a mean loss in `training_step`, a metric in `validation_step`."""

    def __init__(self) -> None:
        super().__init__()
        KEPT.clear()
        self.net = nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, CLASSES))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        loss = cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        x, y = batch
        self.log("val_loss", cross_entropy(self.net(x), y))

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.05)


class Offering(Ordinary):
    """The same with a loss for each example."""

    def per_sample_loss(self, batch: Any) -> Tensor:
        x, y = batch
        return cross_entropy(self.net(x), y, reduction="none")


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
        self.net = nn.Sequential(nn.Linear(FEATURES, 6), nn.Unflatten(1, (2, 3)), norm, nn.Flatten(), nn.Linear(6, CLASSES))

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
            loss = loss + (batch[0].nan_to_num() - self.bank).tanh().square().mean() * self.net[0].weight.sum()
        self.bank = batch[0].nan_to_num().detach().clone()
        return loss


class Dropping(Offering):
    """Has two layers of dropout: what a row gets depends on its place among the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Dropout(0.3), nn.Linear(FEATURES, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, CLASSES))


class DroppingInSteps(Ordinary):
    """The same by `training_step`."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Dropping().net


class Following(Ordinary):
    """Lowers its learning rate when a metric stops falling."""

    monitor = "val_loss"

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.0, factor=0.1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": self.monitor, "interval": "step"}}


class FollowingTraining(KeepingElsewhere):
    """Lowers its learning rate by a running mean of its training losses."""

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.0, factor=0.1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "running_loss", "interval": "step"}}


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


class Alarmed(Offering):
    """Warns of what it finds odd."""

    def per_sample_loss(self, batch: Any) -> Tensor:
        if bool((batch[0] > 2.9).any()):
            warnings.warn("large values: did you forget to scale?", stacklevel=2)
        return super().per_sample_loss(batch)


class Reading(pl.LightningModule):
    """Takes dictionaries of tokens with masks, and weighs each example's loss."""

    def __init__(self) -> None:
        super().__init__()
        KEPT.clear()
        self.embed = nn.Embedding(VOCABULARY, 6, padding_idx=0)
        self.head = nn.Linear(6, CLASSES)

    def scores(self, batch: Any) -> Tensor:
        mask = batch["mask"][..., None]
        mean = (self.embed(batch["tokens"]) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return self.head(mean)

    def per_sample_loss(self, batch: Any) -> Tensor:
        return cross_entropy(self.scores(batch), batch["label"], reduction="none") * batch["weight"]

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", cross_entropy(self.scores(batch), batch["label"]))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self.per_sample_loss(batch).mean()

    configure_optimizers = Ordinary.configure_optimizers


class DividingByTokens(Reading):
    """Divides each loss by the number of tokens in the batch."""

    def per_sample_loss(self, batch: Any) -> Tensor:
        return super().per_sample_loss(batch) * 30 / (batch["tokens"] > 0).sum().clamp(min=1)


class SeeingPadding(Reading):
    """Averages over all places of the batch up to the longest example, padding included."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 6)

    def scores(self, batch: Any) -> Tensor:
        longest = int((batch["tokens"] > 0).sum(1).max())
        return self.head(self.embed(batch["tokens"][:, : max(1, longest)]).mean(1))


class Sorting(Reading):
    """Sorts the rows of a batch by length between two layers, and forgets to sort the labels."""

    def scores(self, batch: Any) -> Tensor:
        mask = batch["mask"][..., None]
        mean = (self.embed(batch["tokens"]) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return self.head(mean[(batch["tokens"] > 0).sum(1).argsort(stable=True)])


class Net(nn.Module):
    """A network for `class_path` in a spec."""

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Dropout(p), nn.Linear(8, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


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


def in_one_piece() -> Poisson:
    """Return a sampler whose batches go through the model at once."""
    return Poisson(sample_rate=0.6, expected_batch_size=10, physical_batch_size=64)


def made_up(count: int) -> Any:
    """Return made-up examples."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(count, FEATURES, generator=generator), torch.randint(CLASSES, (count,), generator=generator)]


def pad_to_longest(examples: list[Any]) -> Any:
    """Cut the padding that no example of the batch needs."""
    batch = default_collate(examples)
    longest = max(1, int(batch["mask"].sum(1).max()))
    return batch | {"tokens": batch["tokens"][:, :longest], "mask": batch["mask"][:, :longest]}


def mix_rows(examples: list[Any]) -> Any:
    """Put the end of each example behind the beginning of the next one."""
    batch = default_collate(examples)
    first = torch.arange(batch["tokens"].shape[1]) < 2
    return batch | {"tokens": torch.where(first, batch["tokens"].roll(1, 0), batch["tokens"])}
