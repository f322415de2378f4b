"""The DP callback on a user's own Lightning module, in a real Trainer."""

from __future__ import annotations

import json
import signal

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import dppipe
from dppipe.clipping import Flat
from dppipe.errors import PrivacyRefusal
from dppipe.noise import Constant
from dppipe.planning.privacy_plan import plan_privacy
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.sampling import Poisson


class Mine(pl.LightningModule):
    """An ordinary module with an ordinary mean loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.optimizer_steps = 0

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self.layer(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", nn.functional.cross_entropy(self.layer(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {
                "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9),
                "interval": "step",
            },
        }


@pytest.fixture
def dataset():
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(
        torch.randn(200, 5, generator=generator), torch.randint(3, (200,), generator=generator)
    )


def private(tmp_path, **changes):
    given = {
        "sampler": Poisson(sample_rate=0.05, physical_batch_size=4),
        "clipping": Flat(max_grad_norm=1.0),
        "noise": Constant(noise_multiplier=1.0),
        "accountant": Rdp(),
        "budget": dppipe.Budget(epsilon=4.0, delta=1e-5),
        "run_dir": tmp_path / "run",
    }
    return dppipe.DPCallback(**given | changes)


def trainer(callback, **changes):
    given = {
        "max_steps": 12,
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
    }
    return pl.Trainer(
        callbacks=[callback] if callback else [], enable_model_summary=False, **given | changes
    )


def test_a_users_module_trains_and_lightning_counts_logical_steps(tmp_path, dataset):
    callback, module = private(tmp_path), Mine()
    keys = list(module.state_dict())
    fit = trainer(callback)
    fit.fit(module, callback.loader(dataset), DataLoader(dataset, batch_size=50))
    rows = (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()
    assert fit.global_step == callback.outcome.steps == len(rows) == 12
    assert fit.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.1 * 0.9**12)
    assert callback.outcome.status == "completed"
    assert list(module.state_dict()) == keys
    assert "training_step" not in module.__dict__
    assert "backward" not in module.__dict__
    state = torch.load(tmp_path / "run" / "checkpoints" / "final.ckpt", weights_only=True)
    Mine().load_state_dict(state)
    assert set(callback.outcome.metrics) == {"nonprivate/val/loss"}


def test_the_run_stops_at_the_budget(tmp_path, dataset):
    callback = private(tmp_path, budget=dppipe.Budget(epsilon=2.5, delta=1e-5))
    fit = trainer(callback, max_steps=10_000)
    fit.fit(Mine(), callback.loader(dataset))
    assert callback.outcome.status == "budget_exhausted"
    assert 0 < fit.global_step == callback.plan.steps < 10_000
    assert callback.outcome.epsilon <= 2.5


def test_auto_noise_lands_on_the_budget(tmp_path, dataset):
    callback = private(tmp_path, noise=Constant())
    trainer(callback).fit(Mine(), callback.loader(dataset))
    assert 3.9 < callback.outcome.epsilon <= 4.0
    assert callback.outcome.steps == 12


def test_the_private_loader_without_its_callback_fails(tmp_path, dataset):
    loader = private(tmp_path).loader(dataset)
    with pytest.raises(PrivacyRefusal, match="DPCallback"):
        trainer(None).fit(Mine(), loader)


def test_any_other_loader_is_refused_and_nothing_is_written(tmp_path, dataset):
    callback = private(tmp_path)
    callback.loader(dataset)
    with pytest.raises(PrivacyRefusal, match="own loader"):
        trainer(callback).fit(Mine(), DataLoader(dataset, batch_size=10))
    assert not (tmp_path / "run").exists()


def test_a_loader_of_another_callback_is_refused(tmp_path, dataset):
    callback, other = private(tmp_path), private(tmp_path)
    callback.loader(dataset)
    with pytest.raises(PrivacyRefusal):
        trainer(callback).fit(Mine(), other.loader(dataset))


@pytest.mark.parametrize(
    "options",
    [
        {"accumulate_grad_batches": 2},
        {"gradient_clip_val": 1.0},
        {"min_steps": 500},
        {"overfit_batches": 2},
        {"limit_train_batches": 3},
        {"precision": "bf16-true"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_that_break_the_logical_step_are_refused(tmp_path, dataset, options):
    callback = private(tmp_path)
    with pytest.raises(PrivacyRefusal, match=next(iter(options))):
        trainer(callback, **options).fit(Mine(), callback.loader(dataset))
    assert not (tmp_path / "run").exists()


def test_early_stopping_on_a_private_metric_is_refused(tmp_path, dataset):
    callback = private(tmp_path)
    fit = trainer(callback)
    fit.callbacks.append(pl.callbacks.EarlyStopping("val_loss"))
    with pytest.raises(PrivacyRefusal, match="EarlyStopping"):
        fit.fit(Mine(), callback.loader(dataset), DataLoader(dataset))


def test_a_module_that_optimizes_by_hand_is_refused(tmp_path, dataset):
    callback, module = private(tmp_path), Mine()
    module.automatic_optimization = False
    with pytest.raises(PrivacyRefusal, match="automatic_optimization"):
        trainer(callback).fit(module, callback.loader(dataset))


def test_gradients_are_seen_only_after_they_are_charged(tmp_path, dataset):
    """An independent observer on the optimizer counts the ledger's rows at the moment of each update."""
    seen = []

    class Watch(pl.Callback):
        def on_before_optimizer_step(self, trainer, pl_module, optimizer):
            seen.append(len((tmp_path / "run" / "ledger.jsonl").read_text().splitlines()))

        def on_before_zero_grad(self, trainer, pl_module, optimizer):
            pass

    callback = private(tmp_path)
    fit = trainer(callback)
    fit.callbacks.append(Watch())
    fit.fit(Mine(), callback.loader(dataset))
    assert seen == list(range(1, 13))


def test_an_exception_in_the_users_code_leaves_the_charge_and_the_module_as_it_was(
    tmp_path, dataset
):
    class Breaks(pl.Callback):
        def on_train_batch_end(self, trainer, *args):
            if trainer.global_step == 3:
                raise RuntimeError("user's own")

    callback, module = private(tmp_path), Mine()
    fit = trainer(callback)
    fit.callbacks.append(Breaks())
    with pytest.raises(RuntimeError, match="user's own"):
        fit.fit(module, callback.loader(dataset))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["status"] == "failed"
    assert summary["charged"] == 3
    assert summary["epsilon"] == callback.plan.epsilon
    assert "training_step" not in module.__dict__


def test_empty_batches_are_ordinary_charged_steps(tmp_path, dataset):
    callback = private(tmp_path, sampler=Poisson(sample_rate=0.002))
    module = Mine()
    before = [p.detach().clone() for p in module.parameters()]
    trainer(callback, max_steps=20).fit(module, callback.loader(dataset))
    rows = [
        json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()
    ]
    assert len(rows) == 20
    assert all(row["count"] == 1 for row in rows)
    assert all(not torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


def test_lr_finder_which_replaces_callbacks_cannot_train(tmp_path, dataset):
    callback = private(tmp_path)
    fit = trainer(callback)
    with pytest.raises(PrivacyRefusal):
        pl.tuner.Tuner(fit).lr_find(Mine(), callback.loader(dataset))
    assert not (tmp_path / "run").exists()


class Normed(Mine):
    """A module whose layer mixes the examples of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))


class Mixing(Mine):
    """A module whose loss of one example follows the others."""

    def per_sample_loss(self, batch):
        x, y = batch
        return nn.functional.cross_entropy(self.layer(x - x.mean(0)), y, reduction="none")


@pytest.mark.parametrize(
    ("module", "named"), [(Normed, "layer.1"), (Mixing, "per_sample_loss|layer")]
)
def test_what_mixes_examples_is_refused_before_anything_is_spent(tmp_path, dataset, module, named):
    callback = private(tmp_path)
    with pytest.raises(PrivacyRefusal, match=named):
        trainer(callback).fit(module(), callback.loader(dataset))
    assert not (tmp_path / "run").exists()


def test_a_module_that_offers_per_sample_losses_trains_like_one_that_does_not(tmp_path, dataset):
    class Offers(Mine):
        def per_sample_loss(self, batch):
            x, y = batch
            return nn.functional.cross_entropy(self.layer(x), y, reduction="none")

    weights = []
    for number, module in enumerate((Mine(), Offers())):
        torch.manual_seed(1)
        module.layer.reset_parameters()
        callback = private(tmp_path, run_dir=tmp_path / str(number), reproducible_seed=5)
        trainer(callback).fit(module, callback.loader(dataset))
        weights.append(module.layer.weight.detach())
    torch.testing.assert_close(*weights, rtol=0, atol=1e-6)


def test_a_callback_whose_plan_says_something_else_of_the_holdout_is_refused(tmp_path, dataset):
    parts = private(tmp_path).parts
    plan = plan_privacy(parts, name="t", records=len(dataset), steps=3, holdout="private")
    callback = private(tmp_path, plan=plan, holdout="public")
    with pytest.raises(PrivacyRefusal, match=r"plan\.holdout: expected 'public', got 'private'"):
        trainer(callback, max_steps=3).fit(Mine(), callback.loader(dataset))
    assert not (tmp_path / "run").exists()


def test_a_plan_of_a_fit_in_python_names_the_dataset_and_no_split(tmp_path, dataset):
    callback = private(tmp_path)
    trainer(callback, max_steps=2).fit(Mine(), callback.loader(dataset))
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert plan["split"] is None
    assert plan["data"]["kind"] == "torch.utils.data.dataset.TensorDataset"


@pytest.mark.parametrize("end", ["well", "by an error"])
def test_a_fit_leaves_the_handlers_of_signals_as_they_were(tmp_path, dataset, end):
    """Else the handler of a Trainer that is gone would keep a SIGTERM from ending the process."""

    class Ends(pl.Callback):
        def on_train_batch_end(self, *args):
            if end == "by an error":
                raise ValueError("the end")

    callback = private(tmp_path)
    fit = trainer(callback, max_steps=2)
    fit.callbacks.append(Ends())
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    try:
        fit.fit(Mine(), callback.loader(dataset))
    except ValueError:
        assert end == "by an error"
    assert [signal.getsignal(number) for number in numbers] == before


class Draws(pl.Callback):
    """Draws records from the training loader outside of a step."""

    def __init__(self, loader):
        self.loader = loader
        self.refused = []

    def on_train_batch_end(self, *args):
        with pytest.raises(PrivacyRefusal, match="inside the gate's computation") as caught:
            self.loader.draw(1)
        self.refused.append(caught.value)


def test_no_callback_draws_records_outside_of_a_step(tmp_path, dataset):
    callback = private(tmp_path)
    loader = callback.loader(dataset)
    draws = Draws(loader)
    fit = trainer(callback, max_steps=3)
    fit.callbacks.append(draws)
    fit.fit(Mine(), loader)
    assert len(draws.refused) == 3
