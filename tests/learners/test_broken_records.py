"""From the first charge on no record ends a run: one that is broken contributes nothing, and removes no other."""

from __future__ import annotations

import json

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

import dppipe
from dppipe.clipping import AdaClip, Adaptive, Flat, Global, Jl, Microbatch
from dppipe.errors import DppipeError, PartlyAdded, PrivacyRefusal, UsageError
from dppipe.noise import Constant
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.sampling import FullBatch, User

pytestmark = pytest.mark.sampled(2)

RECORDS = 12


class Textless(RuntimeError):
    """An error of which no text can be made."""

    def __str__(self):
        raise ValueError("a record's value")


class Records(Dataset):
    """Pairs of inputs and classes, of which one may be broken in some way."""

    def __init__(self, *, broken: str | None = None, at: int = 3):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(RECORDS, 4, generator=generator)
        self.y = torch.arange(RECORDS) % 3
        self.users = torch.arange(RECORDS).div(3, rounding_mode="floor").numpy()
        self.broken, self.at = broken, at

    def __len__(self):
        return RECORDS

    def __getitem__(self, index):
        x, y = self.x[index], int(self.y[index])
        if index != self.at or self.broken is None:
            return x, y
        if self.broken == "raises":
            raise KeyError("a record's value")
        if self.broken == "raises without text":
            raise Textless
        return {
            "label": (x, 99),
            "negative label": (x, -5),
            "shape": (x[:3], y),
            "dtype": (x.to(torch.int32), y),
            "text": ("text", y),
            "none": (None, y),
            "endless label": (x, 10**30),
            "nan": (x * float("nan"), y),
            "huge": (x * 1e30, y),
            "poison": (torch.full((4,), 7.0), y),
        }[self.broken]


BROKEN = [
    "raises",
    "raises without text",
    "label",
    "endless label",
    "negative label",
    "shape",
    "text",
    "none",
    "nan",
    "poison",
]


class Ordinary(pl.LightningModule):
    """A module with a mean loss that raises on one value."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)

    def loss(self, batch, reduction):
        x, y = batch
        if bool((x == 7).all(1).any()):
            raise ArithmeticError("a record's value")
        return nn.functional.cross_entropy(self.layer(x), y, reduction=reduction)

    def training_step(self, batch, batch_idx):
        return self.loss(batch, "mean")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.5)


class Offers(Ordinary):
    def per_sample_loss(self, batch):
        return self.loss(batch, "none")


class Silent:
    """Noise that isn't there, so that sums can be compared."""

    def add_(self, flat, *, std, over=1.0):
        return flat.div_(over)


def fit(tmp_path, dataset, *, module=None, steps=2, validate=None, **changes):
    given = {
        "sampler": FullBatch(),
        "clipping": Flat(max_grad_norm=0.1),
        "noise": Constant(noise_multiplier=1.0),
        "accountant": Rdp(),
        "budget": dppipe.Budget(epsilon=1e4, delta=1e-5),
        "run_dir": tmp_path / f"run{len(list(tmp_path.iterdir()))}",
    } | changes
    callback = dppipe.DPCallback(**given)
    options = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = pl.Trainer(
        max_steps=steps, accelerator="cpu", callbacks=[callback], num_sanity_val_steps=0, **options
    )
    trainer.fit(module or Ordinary(), callback.loader(dataset), validate)
    return callback


def weights(callback):
    from pathlib import Path

    return torch.load(
        Path(callback.outcome.run_dir) / "checkpoints" / "final.ckpt", weights_only=True
    )


@pytest.fixture
def silent(monkeypatch):
    import dppipe.learners.gating.sources as sources_module

    monkeypatch.setattr(sources_module, "GaussianStream", lambda *args, **options: Silent())


@pytest.mark.parametrize("module", [Ordinary, Offers])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_record_contributes_nothing_and_the_others_what_they_did(
    tmp_path, silent, module, broken
):
    whole = fit(tmp_path, Records(broken=broken), module=module())
    without = fit(tmp_path, Records(broken="raises"), module=module())
    assert whole.outcome.status == without.outcome.status == "completed"
    for name, value in weights(whole).items():
        assert torch.allclose(value, weights(without)[name], atol=1e-7)


def test_a_broken_record_of_a_user_leaves_the_users_other_records_and_all_other_users(
    tmp_path, silent
):
    sampler = User(sample_rate=1.0, max_records_per_user=3)
    kept = fit(tmp_path, Records(), sampler=sampler, module=Offers())
    broken = {
        kind: fit(tmp_path, Records(broken=kind), sampler=sampler, module=Offers())
        for kind in ("label", "raises", "shape")
    }
    for callback in broken.values():
        assert callback.outcome.status == "completed"
        difference = [weights(callback)[name] - value for name, value in weights(kept).items()]
        moved = torch.cat([value.flatten() for value in difference]).norm()
        assert 0 < float(moved) <= 2 * 0.5 * 2 * 0.1 / (RECORDS / 3) * (1 + 1e-6)


@pytest.mark.parametrize("sampler", [FullBatch(), User(sample_rate=1.0)], ids=["record", "user"])
@pytest.mark.parametrize(
    "clipping",
    [
        Microbatch(size=2, max_grad_norm=0.1),
        Jl(max_grad_norm=0.1, delta=5e-3),
        Adaptive(unclipped_num_std=50.0),
        Adaptive(unclipped_num_std=50.0, grouping="layerwise"),
        Global(variant="adaptive", unclipped_num_std=50.0),
        AdaClip(),
    ],
    ids=["microbatch", "jl", "adaptive", "layerwise", "global", "adaclip"],
)
def test_every_way_of_clipping_goes_on_past_a_broken_record(tmp_path, clipping, sampler):
    if isinstance(clipping, Microbatch) and isinstance(sampler, User):
        return  # refused: users are averaged already
    budget = dppipe.Budget(epsilon=1e4, delta=1e-2)
    changes = {"clipping": clipping, "module": Offers(), "budget": budget, "sampler": sampler}
    callback = fit(tmp_path, Records(broken="label"), **changes)
    assert callback.outcome.status == "completed"


def test_the_number_of_broken_records_is_shown_under_nonprivate_alone_and_only_if_asked_for(
    tmp_path,
):
    callback = fit(tmp_path, Records(broken="raises"))
    assert not callback.outcome.metrics
    facts = callback.outcome.to_data() | {"run_dir": ""}
    assert "broken" not in json.dumps(facts)


def test_declared_ranges_leave_a_record_out_before_it_reaches_the_device(tmp_path, monkeypatch):
    seen = []
    loss = Offers.per_sample_loss
    monkeypatch.setattr(
        Offers,
        "per_sample_loss",
        lambda self, batch: (seen.append(int(batch[1].max())), loss(self, batch))[1],
    )
    callback = dppipe.DPCallback(
        sampler=FullBatch(), noise=Constant(noise_multiplier=1.0), accountant=Rdp(),
        budget=dppipe.Budget(epsilon=1e4, delta=1e-5), run_dir=tmp_path / "run",
    )  # fmt: skip
    trainer = pl.Trainer(
        max_steps=1,
        accelerator="cpu",
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
    )
    trainer.fit(Offers(), callback.loader(Records(broken="label"), ranges=(None, range(3))))
    assert callback.outcome.status == "completed"
    assert max(seen) == 2


def test_a_mistake_in_the_code_shows_before_the_first_charge_and_is_not_taken_for_a_record(
    tmp_path,
):
    class Mistaken(Ordinary):
        def training_step(self, batch, batch_idx):
            return self.lyaer(batch[0]).sum()

    with pytest.raises(UsageError, match=r"test_broken_records.py:\d+: .*lyaer"):
        fit(tmp_path, Records(), module=Mistaken())
    assert not list(tmp_path.iterdir())


def test_memory_that_runs_out_is_no_record_s_fault_and_ends_the_run(tmp_path, monkeypatch):
    from dppipe.engine import Engine

    callback_runs = []
    accumulate = Engine.accumulate_parts

    def full(self, *args, **options):
        callback_runs.append(1)
        raise MemoryError

    monkeypatch.setattr(Engine, "accumulate_parts", full)
    with pytest.raises(MemoryError):
        fit(tmp_path, Records())
    assert callback_runs
    summary = json.loads((tmp_path / "run0" / "summary.json").read_text())
    assert summary["status"] == "failed"
    monkeypatch.setattr(Engine, "accumulate_parts", accumulate)


def test_records_of_which_none_can_be_read_are_an_error_before_the_first_charge(tmp_path):
    class Gone(Records):
        def __getitem__(self, index):
            raise FileNotFoundError("a record's value")

    with pytest.raises(UsageError, match="private records") as error:
        fit(tmp_path, Gone())
    assert "value" not in str(error.value)
    assert not list(tmp_path.iterdir())


class Validates(Ordinary):
    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch, "mean"))
        self.shown = self.loss(batch, "mean").item()
        self.trainer.optimizers[0].param_groups[0]["lr"] *= 0.5

    def on_validation_epoch_end(self):
        if self.shown > 0:
            self.trainer.should_stop = True


@pytest.mark.parametrize("broken", [None, *BROKEN])
def test_a_private_holdout_ends_nothing_and_leaves_no_trace(tmp_path, broken):
    module = Validates()
    loader = DataLoader(Records(broken=broken), batch_size=5)
    callback = fit(tmp_path, Records(), module=module, steps=6, validate=loader)
    assert callback.outcome.status == "completed"
    assert callback.outcome.steps == 6
    assert not hasattr(module, "shown")
    assert "validation_step" not in module.__dict__


def test_a_mistake_in_validation_shows_before_the_first_charge(tmp_path):
    class Mistaken(Validates):
        def validation_step(self, batch, batch_idx):
            self.log("val_loss", self.lyaer(batch[0]))

    with pytest.raises(DppipeError, match="lyaer"):
        fit(tmp_path, Records(), module=Mistaken(), validate=DataLoader(Records(), batch_size=5))
    assert not list(tmp_path.iterdir())


def test_the_statement_of_a_run_that_failed_claims_nothing(tmp_path, monkeypatch):
    from dppipe.engine import Engine

    accumulate = Engine.accumulate_parts
    calls = []

    def full_at_last(self, *args, **options):
        calls.append(1)
        if len(calls) > 1:
            raise MemoryError
        return accumulate(self, *args, **options)

    monkeypatch.setattr(Engine, "accumulate_parts", full_at_last)
    with pytest.raises(MemoryError):
        fit(tmp_path, Records(), steps=5, checkpoint_every=1)
    run = tmp_path / "run0"
    summary, stated = (
        json.loads((run / name).read_text()) for name in ("summary.json", "privacy.json")
    )
    assert (summary["status"], summary["certified"], summary["steps"], summary["charged"]) == (
        "failed",
        False,
        1,
        2,
    )
    assert (stated["status_of_claim"], stated["protects"], stated["released"]) == (
        "failed",
        False,
        [],
    )
    text = (run / "privacy.md").read_text()
    assert text.splitlines()[2].startswith("**NO CLAIM")
    assert "certified" not in text
    assert not (run / "checkpoints" / "final.ckpt").exists()


def test_records_that_are_unlike_the_made_up_examples_are_a_mistake_not_broken_records(tmp_path):
    class Double(Records):
        def __getitem__(self, index):
            x, y = super().__getitem__(index)
            return x.double(), y

    callback = dppipe.DPCallback(
        sampler=FullBatch(), noise=Constant(noise_multiplier=1.0), accountant=Rdp(),
        budget=dppipe.Budget(epsilon=1e4, delta=1e-5), run_dir=tmp_path / "run",
    )  # fmt: skip
    trainer = pl.Trainer(
        max_steps=1,
        accelerator="cpu",
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
    )
    made_up = lambda n: (torch.randn(n, 4), torch.arange(n) % 3)  # noqa: E731
    with pytest.raises(UsageError, match=r"made-up inputs of float64"):
        trainer.fit(Offers(), callback.loader(Double(), synthetic=made_up))
    assert not (tmp_path / "run").exists()


def test_an_error_while_sums_are_added_ends_the_run_and_nothing_is_added_twice(
    tmp_path, monkeypatch
):
    from dppipe.engine.gradients.forms import Dense

    add_to, calls = Dense.add_to, []

    def fails_on_the_way(self, total, factors):
        if (tmp_path / "run0" / "ledger.jsonl").exists():
            calls.append(1)
        if len(calls) == 2:  # the second parameter of the first batch
            raise RuntimeError("anything")
        return add_to(self, total, factors)

    monkeypatch.setattr(Dense, "add_to", fails_on_the_way)
    with pytest.raises(PartlyAdded):
        fit(tmp_path, Records(), steps=5)
    assert json.loads((tmp_path / "run0" / "summary.json").read_text())["status"] == "failed"


def test_a_record_of_which_collate_makes_several_rows_contributes_nothing(tmp_path, silent):
    def several(examples):
        ((x, y),) = examples
        count = 5 if torch.equal(x, Records().x[3]) else 1
        return x[None].repeat(count, 1), torch.tensor([y] * count)

    kept = []
    for dataset, collate in ((Records(), several), (Records(broken="raises"), None)):
        callback = dppipe.DPCallback(
            sampler=FullBatch(), clipping=Flat(max_grad_norm=0.1), noise=Constant(noise_multiplier=1.0), accountant=Rdp(),
            budget=dppipe.Budget(epsilon=1e4, delta=1e-5), run_dir=tmp_path / f"run{len(kept)}",
        )  # fmt: skip
        options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = pl.Trainer(
            max_steps=2,
            accelerator="cpu",
            callbacks=[callback],
            enable_model_summary=False,
            **options,
        )
        trainer.fit(Offers(), callback.loader(dataset, collate=collate))
        kept.append(weights(callback))
    assert all(torch.allclose(value, kept[1][name], atol=1e-7) for name, value in kept[0].items())


class WritesItsWeights(Ordinary):
    """Adds what it sees to its own weights, from the second step on."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        if self.trainer.global_step > 0:
            self.layer.weight.data.add_(batch[0].mean())
            self.layer.seen = batch[0]
        return loss


def test_what_a_step_writes_into_its_weights_is_undone_before_the_next_record(tmp_path, silent):
    plain = fit(tmp_path, Records(), steps=4)
    writes = fit(tmp_path, Records(), module=WritesItsWeights(), steps=4)
    for name, value in weights(plain).items():
        assert torch.allclose(value, weights(writes)[name], atol=1e-6)


class Freezes(Offers):
    def on_train_batch_start(self, batch, batch_idx):
        self.layer.bias.requires_grad_(batch_idx < 1 and self.current_epoch == 0)


def test_a_layer_that_a_hook_freezes_stays_and_the_others_go_on(tmp_path, silent):
    module = Freezes()
    fit(tmp_path, Records(), module=module, steps=1)
    bias, weight = module.layer.bias.detach().clone(), module.layer.weight.detach().clone()
    other = Freezes()
    fit(tmp_path, Records(), module=other, steps=4)
    assert torch.allclose(other.layer.bias, bias)
    assert not torch.allclose(other.layer.weight, weight)


class Unfreezes(Offers):
    def __init__(self):
        super().__init__()
        self.layer.bias.requires_grad_(False)

    def on_train_batch_start(self, batch, batch_idx):
        self.layer.bias.requires_grad_(self.global_step >= 2)


def test_a_layer_that_a_hook_unfreezes_is_refused_before_its_step_is_charged(tmp_path):
    with pytest.raises(PrivacyRefusal, match=r"layer\.bias: expected to stay frozen"):
        fit(tmp_path, Records(), module=Unfreezes(), steps=4)
    summary = json.loads((tmp_path / "run0" / "summary.json").read_text())
    assert (summary["status"], summary["charged"]) == ("failed", 2)


@pytest.mark.filterwarnings("ignore:.*returned .None.:UserWarning")
def test_a_module_without_an_optimizer_is_an_error_before_the_first_charge(tmp_path):
    class Forgets(Ordinary):
        def configure_optimizers(self):
            return None

    with pytest.raises(UsageError, match="nothing would be trained"):
        fit(tmp_path, Records(), module=Forgets())
    assert not list(tmp_path.iterdir())


def test_ctrl_c_while_a_record_is_read_ends_the_run(tmp_path):
    class Stopped(Records):
        reads = 0

        def __getitem__(self, index):
            self.reads += 1
            if self.reads > 3 * RECORDS:  # in a step, after the checks
                raise KeyboardInterrupt
            return super().__getitem__(index)

    with pytest.raises((KeyboardInterrupt, SystemExit)):
        fit(tmp_path, Stopped(), steps=9)
    assert json.loads((tmp_path / "run0" / "summary.json").read_text())["status"] == "interrupted"


class Stream(IterableDataset):
    def __iter__(self):
        return iter(Records())


class StreamOfKnownLength(Stream):
    def __len__(self):
        return RECORDS


@pytest.mark.parametrize("dataset", [Stream(), StreamOfKnownLength(), object()])
def test_a_data_set_without_numbered_records_is_an_error_that_names_a_way_out(tmp_path, dataset):
    with pytest.raises(
        UsageError, match=r"loader: expected a map-style data set.*Read the records into a list"
    ):
        fit(tmp_path, dataset)
    assert not list(tmp_path.iterdir())
