"""What a private fit spends is shown where its user looks: in loggers, in the progress bar, and at the end."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytorch_lightning.callbacks import RichProgressBar, TQDMProgressBar
from pytorch_lightning.callbacks.progress.tqdm_progress import Tqdm
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.loggers.logger import Logger
from torch import nn
from torch.utils.data import TensorDataset

import dppipe
from dppipe.lightning.metrics.privacy_logs import bar_facts
from dppipe.noise import Constant
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.sampling import Poisson

STEPS = 7


class Mine(pl.LightningModule):
    """An ordinary module."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Listed(Logger):
    """A logger of the user's own, which isn't one of Lightning's classes."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int | None, dict[str, float]]] = []

    @property
    def name(self) -> str:
        return "listed"

    @property
    def version(self) -> int:
        return 0

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        pass

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.rows.append((step, dict(metrics)))


def fit(folder: Path, *, summary: bool = True, budget: bool = True, **options: Any) -> pl.Trainer:
    private = dppipe.DPCallback(
        sampler=Poisson(sample_rate=0.1, physical_batch_size=64),
        noise=Constant(noise_multiplier=2.0),
        accountant=Rdp(),
        budget=dppipe.Budget(epsilon=8.0, delta=1e-5) if budget else None,
        run_dir=folder / "run",
        summary=summary,
    )
    quiet: dict[str, Any] = {
        "accelerator": "cpu",
        "enable_checkpointing": False,
        "enable_model_summary": False,
        "enable_progress_bar": False,
        "max_steps": STEPS,
    }
    callbacks = [private, *options.pop("callbacks", ())]
    trainer = pl.Trainer(callbacks=callbacks, **quiet | options)
    dataset = TensorDataset(torch.randn(200, 5), torch.randint(3, (200,)))
    trainer.fit(Mine(), private.loader(dataset))
    return trainer


def ledger(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "run/ledger.jsonl").read_text().splitlines()]


def test_every_logger_gets_the_numbers_of_the_ledger(tmp_path: Path) -> None:
    own = [Listed(), CSVLogger(tmp_path / "csv")]
    fit(tmp_path, logger=own, log_every_n_steps=1)
    rows = ledger(tmp_path)
    seen = [(step, facts) for step, facts in own[0].rows if "privacy/epsilon" in facts]
    assert [step for step, _ in seen] == list(range(1, STEPS + 1))
    for row, (_, facts) in zip(rows, seen, strict=True):
        assert facts["privacy/epsilon"] == row["epsilon"]
        assert facts["privacy/epsilon_remaining"] == 8.0 - row["epsilon"]
        assert facts["privacy/noise_multiplier"] == row["noise_multiplier"]
        assert facts["privacy/sample_rate"] == row["sample_rate"]
        assert facts["privacy/max_grad_norm"] == row["max_grad_norm"]
        assert facts["privacy/steps_remaining"] == STEPS - row["step"]
    with (Path(own[1].log_dir) / "metrics.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert float(last["privacy/epsilon"]) == rows[-1]["epsilon"]


@pytest.mark.parametrize(
    ("every", "steps"), [(1, [1, 2, 3, 4, 5, 6, 7]), (3, [1, 3, 6, 7]), (50, [1, 7]), (0, [])]
)
def test_loggers_get_the_first_and_the_last_step_and_those_that_the_trainer_asks_for(
    tmp_path: Path, every: int, steps: list[int]
) -> None:
    own = Listed()
    fit(tmp_path, logger=own, log_every_n_steps=every)
    assert [step for step, facts in own.rows if "privacy/epsilon" in facts] == steps


class Impostor(pl.Callback):
    """User code that logs a name of dppipe's own."""

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any) -> None:
        trainer.logger.log_metrics({"privacy/epsilon": 0.0}, step=trainer.global_step)  # type: ignore[union-attr]


def test_user_code_can_not_log_under_the_names_of_the_budget(tmp_path: Path) -> None:
    own = Listed()
    fit(tmp_path, logger=own, callbacks=[Impostor()])
    marked = [facts for _, facts in own.rows if "nonprivate/privacy/epsilon" in facts]
    assert len(marked) == STEPS
    assert all(facts.get("privacy/epsilon", 1.0) > 0 for _, facts in own.rows)


@pytest.mark.parametrize("bar", [TQDMProgressBar, RichProgressBar])
def test_the_progress_bar_shows_epsilon(
    tmp_path: Path, bar: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = fit(tmp_path, callbacks=[bar()], enable_progress_bar=True, logger=False)
    shown = trainer.progress_bar_metrics
    assert set(shown) == {"privacy/epsilon", "privacy/epsilon_remaining"}
    assert shown["privacy/epsilon"] >= ledger(tmp_path)[-1]["epsilon"]
    assert "privacy/epsilon" in "".join(capsys.readouterr())


@given(st.floats(0, 1e7), st.floats(-1e-9, 1e7))
def test_no_bar_rounds_epsilon_down_or_what_is_left_up(epsilon: float, left: float) -> None:
    facts = bar_facts({"privacy/epsilon": epsilon, "privacy/epsilon_remaining": left})
    for text in (Tqdm.format_num, "{:.3f}".format):
        assert float(text(facts["privacy/epsilon"])) >= epsilon
        assert float(text(facts["privacy/epsilon_remaining"])) <= max(left, 0.0)


def test_the_summary_is_that_of_the_command_and_can_be_switched_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(tmp_path / "one", logger=False)
    said = capsys.readouterr().out
    assert "ended           completed" in said
    assert "delta 1e-05, zero_out, one example" in said
    assert "dppipe tensorboard" in said
    fit(tmp_path / "two", summary=False, logger=False)
    assert "ended" not in capsys.readouterr().out


def test_a_baseline_says_that_it_is_not_private_and_logs_no_epsilon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Listed()
    fit(tmp_path, budget=False, logger=own, log_every_n_steps=1)
    assert "NOT PRIVATE" in capsys.readouterr().out
    assert not any(name.startswith("privacy/") for _, facts in own.rows for name in facts)


class Fails(pl.Callback):
    """User code that ends the fit with an error."""

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any) -> None:
        raise RuntimeError("on purpose")


def test_a_fit_that_fails_prints_no_claim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RuntimeError, match="on purpose"):
        fit(tmp_path, logger=False, callbacks=[Fails()])
    assert "epsilon" not in capsys.readouterr().out
