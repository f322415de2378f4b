"""Modules that take dictionaries of tokens and masks: one that treats each example alone, and ones that don't."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from redteam.modules import Ordinary
from redteam.records import CLASSES, VOCABULARY
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import default_collate


class Reading(pl.LightningModule):
    """Takes dictionaries of tokens with masks, and weighs each example's loss."""

    def __init__(self) -> None:
        super().__init__()
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
