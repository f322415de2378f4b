"""Rows that see each other are refused before the first charge, whoever mixes them; rows of one shape are stacked by us."""

from __future__ import annotations

import pytest
import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

import dppipe
from dppipe.clipping import Flat
from dppipe.errors import PrivacyRefusal
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.reading import RecordReader
from dppipe.noise import Constant
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.sampling import FullBatch

WORDS = 11


class Texts(Dataset):
    """Texts as word numbers, as dictionaries; `length` pads all to one length, with a mask."""

    def __init__(self, *, length=8, records=10):
        generator = torch.Generator().manual_seed(0)
        self.items = []
        for index in range(records):
            size = 2 + index % 5
            ids = torch.randint(1, WORDS, (size,), generator=generator)
            if length:
                ids = F.pad(ids, (0, length - size))
            self.items.append({"ids": ids, "mask": (ids > 0).long(), "label": index % 2})

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Reads(pl.LightningModule):
    """A small text model with a loss for each example."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(WORDS, 6)
        self.head = nn.Linear(6, 2)

    def per_sample_loss(self, batch):
        mask = batch["mask"].float()[..., None]
        pooled = (self.table(batch["ids"]) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return F.cross_entropy(self.head(pooled), batch["label"], reduction="none")

    def training_step(self, batch, batch_idx):
        raise AssertionError("per_sample_loss stands in its place")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class TokensOfTheBatch(Reads):
    """Divides by the number of tokens of the whole batch."""

    def per_sample_loss(self, batch):
        return super().per_sample_loss(batch) / batch["mask"].sum()


class SeesPadding(Reads):
    """Takes the mean over as many words as the longest row has."""

    def per_sample_loss(self, batch):
        longest = int(batch["mask"].sum(1).max())
        pooled = self.table(batch["ids"][:, :longest]).mean(1)
        return F.cross_entropy(self.head(pooled), batch["label"], reduction="none")


class SortsByLength(Reads):
    """Sorts rows by length between two layers, and forgets to put them back."""

    def per_sample_loss(self, batch):
        order = batch["mask"].sum(1).argsort(descending=True)
        pooled = self.table(batch["ids"]).mean(1)[order]
        return F.cross_entropy(self.head(pooled), batch["label"], reduction="none")


class ClassesOfTheBatch(Reads):
    """Weighs each example by how frequent its class is in the batch."""

    def per_sample_loss(self, batch):
        losses = super().per_sample_loss(batch)
        return losses / (batch["label"] == batch["label"][:1]).float().mean()


def fit(tmp_path, module, dataset, **options):
    callback = dppipe.DPCallback(
        sampler=FullBatch(), clipping=Flat(max_grad_norm=0.1), noise=Constant(noise_multiplier=1.0), accountant=Rdp(),
        budget=dppipe.Budget(epsilon=1e4, delta=1e-5), run_dir=tmp_path / f"run{len(list(tmp_path.iterdir()))}",
    )  # fmt: skip
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = pl.Trainer(max_steps=2, accelerator="cpu", callbacks=[callback], **quiet)
    trainer.fit(module, callback.loader(dataset, **options))
    return callback


def test_a_text_model_with_padding_and_masks_trains(tmp_path):
    callback = fit(tmp_path, Reads(), Texts())
    assert callback.outcome.status == "completed"
    assert callback.outcome.independence == "checked"
    assert "was checked by value" in (tmp_path / "run0" / "privacy.md").read_text()


@pytest.mark.parametrize(
    "module", [TokensOfTheBatch, SeesPadding, SortsByLength, ClassesOfTheBatch]
)
def test_a_loss_that_looks_at_other_rows_is_refused_and_nothing_is_written(tmp_path, module):
    with pytest.raises(PrivacyRefusal, match="depend on that record alone"):
        fit(tmp_path, module(), Texts())
    assert not list(tmp_path.iterdir())


def test_a_module_that_is_evaluated_one_example_at_a_time_is_independent_by_construction(tmp_path):
    class Alone(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = Reads()

        def training_step(self, batch):
            return self.inner.per_sample_loss(batch).mean() / batch["mask"].sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callback = fit(tmp_path, Alone(), Texts())
    assert callback.outcome.independence == "by construction"
    assert "evaluated alone" in (tmp_path / "run0" / "privacy.md").read_text()


def test_made_up_examples_that_do_not_differ_are_not_enough(tmp_path):
    def alike(count):
        ids = torch.ones(count, 8, dtype=torch.long)
        return {"ids": ids, "mask": ids, "label": torch.arange(count) % 2}

    with pytest.raises(PrivacyRefusal, match=r"equal at batch\['ids'\].*synthetic="):
        fit(tmp_path, Reads(), Texts(), synthetic=alike)


def mixup(examples):
    """Mixes each example with the next of the batch, and pads all to the longest."""
    ids = pad_sequence([example["ids"] for example in examples], batch_first=True)
    labels = torch.tensor([example["label"] for example in examples])
    return {"ids": (ids + ids.roll(1, 0)) % WORDS, "mask": (ids > 0).long(), "label": labels}


def test_collate_sees_one_example_at_a_time_so_it_can_t_mix(tmp_path):
    seen = []

    def watched(examples):
        seen.append(len(examples))
        return mixup(examples)

    callback = fit(tmp_path, Reads(), Texts(length=None), collate=watched)
    assert callback.outcome.status == "completed"
    assert set(seen) == {1}


def test_rows_of_other_lengths_change_no_row():
    import numpy

    texts = Texts(length=None)
    reader = RecordReader(texts, collate=mixup)
    read = reader.read(numpy.arange(len(texts)), numpy.arange(len(texts)))
    assert len(read.parts) == 5
    rows = [row for part in read.parts for row in part["ids"]]
    for place, row in zip(read.units, rows, strict=True):
        assert torch.equal(row, reader.one(int(place))["ids"][0])


class Stateful(pl.LightningModule):
    """A module of the kind that Lightning's users write: an index left out, numbers kept, metrics updated."""

    def __init__(self):
        super().__init__()
        import torchmetrics

        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        self.accuracy = torchmetrics.classification.MulticlassAccuracy(2)
        self.epoch_means = []

    def on_train_epoch_start(self):
        self.losses = []
        self.weight = 1.0 + self.current_epoch

    def training_step(self, batch):
        x, y = batch
        out = self.net(x)
        loss = self.weight * F.cross_entropy(out, y)
        self.losses.append(loss.detach())
        self.running = loss.item()
        self.accuracy(out, y)
        self.log("train_acc", self.accuracy, on_step=True, on_epoch=True)
        return {"loss": loss}

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("running", self.running)

    def on_train_epoch_end(self):
        self.epoch_means.append(torch.stack(self.losses).mean().item())
        self.log("epoch_mean", self.epoch_means[-1])

    def configure_optimizers(self):
        return torch.optim.SGD(
            self.parameters(), lr=0.0
        )  # so that the noise of a release moves nothing


class Numbers(Dataset):
    def __init__(self, scale):
        generator = torch.Generator().manual_seed(1)
        self.x = scale * torch.randn(20, 4, generator=generator)

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return self.x[index], index % 2


def test_a_module_that_keeps_losses_and_metrics_trains_and_keeps_none_of_a_record(tmp_path):
    kept = []
    for scale in (1.0, 1000.0):
        torch.manual_seed(0)
        module = Stateful()
        callback = fit(tmp_path, module, Numbers(scale))
        assert callback.outcome.status == "completed"
        kept.append((module.epoch_means, module.running, module.accuracy._update_count))
    assert kept[0] == kept[1]
    assert len(kept[0][0]) == 2


class Named(Texts):
    """Texts with a name beside their numbers."""

    def __getitem__(self, index):
        return {**super().__getitem__(index), "name": f"record {index}"}


class ReadsInSteps(pl.LightningModule):
    """The same model with a `training_step` alone."""

    def __init__(self):
        super().__init__()
        self.reads = Reads()

    def training_step(self, batch, batch_idx):
        return self.reads.per_sample_loss(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.parametrize("module", [Reads, ReadsInSteps])
def test_texts_beside_numbers_keep_no_record_from_contributing(tmp_path, module, monkeypatch):
    sums = []
    monkeypatch.setattr(Ranks, "sum_", lambda ranks, flat: sums.append(flat.clone()))
    for dataset in (Texts(), Named()):
        fit(tmp_path, module(), dataset)
    without_names, with_names = sums[0], sums[2]  # two steps each
    assert float(without_names.norm()) > 0
    assert torch.allclose(without_names, with_names, atol=1e-6)
