"""Weights that were trained before: recognised, then refused or counted, through the callback and through whole runs."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from pytorch_lightning.callbacks import ModelCheckpoint
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import TensorDataset
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.clipping import Flat
from dppipe.errors import PrivacyRefusal
from dppipe.noise import Constant
from dppipe.planning.earlier.finished_runs import finished_runs
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.runs.directory import RunDirectory
from dppipe.runs.record import RunRecord
from dppipe.runs.statement.writing import write_statement
from dppipe.sampling import Poisson

DELTA = 1e-5
STEP = PoissonSampledDpEvent(0.05, GaussianDpEvent(1.0))


def cost(*steps: tuple[Any, int], relation: Any = "zero_out") -> float:
    """What these events cost together, by the accountant alone."""
    return Rdp().compose(list(steps), relation=relation).epsilon(DELTA)


# The callback.


class Mine(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        inputs, targets = batch
        return nn.functional.cross_entropy(self.layer(inputs), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def private(run_dir: Path, **changes: Any) -> dppipe.DPCallback:
    given = {
        "sampler": Poisson(sample_rate=0.05, physical_batch_size=4),
        "clipping": Flat(max_grad_norm=1.0),
        "noise": Constant(noise_multiplier=1.0),
        "accountant": Rdp(),
        "budget": dppipe.Budget(epsilon=8.0, delta=DELTA),
        "run_dir": run_dir,
    }
    return dppipe.DPCallback(**given | changes)


def fit(
    callback: dppipe.DPCallback,
    module: pl.LightningModule,
    *others: pl.Callback,
    steps: int = 6,
    **how: Any,
) -> pl.Trainer:
    generator = torch.Generator().manual_seed(0)
    dataset = TensorDataset(
        torch.randn(100, 5, generator=generator), torch.randint(3, (100,), generator=generator)
    )
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    saves = {"enable_checkpointing": any(isinstance(other, ModelCheckpoint) for other in others)}
    trainer = pl.Trainer(
        max_steps=steps, accelerator="cpu", callbacks=[callback, *others], **quiet, **saves
    )
    trainer.fit(module, callback.loader(dataset), **how)
    return trainer


def test_a_second_fit_with_one_callback_is_refused_and_leaves_the_first_run_as_it_was(
    tmp_path: Path,
) -> None:
    callback, module = private(tmp_path / "run"), Mine()
    fit(callback, module)
    files = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    for again in (module, Mine()):
        with pytest.raises(
            PrivacyRefusal, match=r"one callback is one run.*DPCallback\(resume="
        ) as refusal:
            fit(callback, again, steps=12)
        assert refusal.value.exit_code == 3
    assert {
        path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()
    } == files
    assert callback.outcome is not None
    assert callback.outcome.steps == 6


def test_a_fit_that_was_refused_before_it_began_can_be_tried_again(tmp_path: Path) -> None:
    callback = private(tmp_path / "run")
    fit(private(tmp_path / "first"), module := Mine())
    with pytest.raises(PrivacyRefusal, match="wasn't fitted before"):
        fit(callback, module)
    fit(callback, Mine())
    assert callback.outcome is not None
    assert callback.outcome.status == "completed"


@pytest.mark.filterwarnings(
    "ignore:Be aware that when using `ckpt_path`, callbacks used to create the checkpoint"
)
@pytest.mark.parametrize("written_by", ["the run", "ModelCheckpoint", "nobody private"])
def test_a_checkpoint_in_a_new_callback_is_refused_before_anything_is_written(
    tmp_path: Path, written_by: str
) -> None:
    if written_by == "the run":
        fit(private(tmp_path / "first"), Mine())
        checkpoint = tmp_path / "first" / "checkpoints" / "last.ckpt"
    elif written_by == "ModelCheckpoint":
        fit(
            private(tmp_path / "first"), Mine(), ModelCheckpoint(tmp_path / "saved", save_last=True)
        )
        checkpoint = tmp_path / "saved" / "last.ckpt"
    else:
        checkpoint = tmp_path / "weights.ckpt"
        data = torch.utils.data.DataLoader(
            TensorDataset(torch.randn(20, 5), torch.randint(3, (20,)))
        )
        quiet = {
            "logger": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "enable_checkpointing": False,
        }
        plain = pl.Trainer(max_steps=2, accelerator="cpu", **quiet)
        plain.fit(Mine(), data)
        plain.save_checkpoint(checkpoint, weights_only=True)
    with pytest.raises(
        PrivacyRefusal, match=r"ckpt_path: .*DPCallback\(resume=RunDirectory"
    ) as refusal:
        fit(
            private(tmp_path / "second"),
            module := Mine(),
            steps=12,
            ckpt_path=checkpoint,
            weights_only=True,
        )
    assert refusal.value.exit_code == 3
    with pytest.raises(
        PrivacyRefusal, match="was trained in the checkpoint"
    ):  # it has been loaded by then
        fit(private(tmp_path / "second"), module, steps=12)
    assert not (tmp_path / "second").exists()


@pytest.mark.filterwarnings("ignore:You.re resuming from a checkpoint that ended before the epoch")
def test_a_resumed_callback_takes_up_its_own_checkpoint_and_no_other(tmp_path: Path) -> None:
    """Two runs of one plan have equal ledgers, so the ledger's head alone wouldn't tell their checkpoints apart."""

    class Interrupts(pl.Callback):
        def on_train_batch_end(self, trainer: pl.Trainer, *args: Any) -> None:
            if trainer.global_step == 3:
                os.kill(os.getpid(), signal.SIGINT)

    for name in ("first", "other"):
        fit(private(tmp_path / name), Mine(), Interrupts())
    first, other = (RunDirectory.open(tmp_path / name) for name in ("first", "other"))
    assert first.ledger.read_bytes() == other.ledger.read_bytes()
    with pytest.raises(PrivacyRefusal, match="that of another private run"):
        fit(private(None, resume=first), Mine(), ckpt_path=other.last_checkpoint, weights_only=True)
    torch.save(
        torch.load(first.last_checkpoint, weights_only=True) | {"callbacks": {}},
        tmp_path / "bare.ckpt",
    )
    with pytest.raises(PrivacyRefusal, match="expected none in a new private run"):
        fit(
            private(None, resume=first), Mine(), ckpt_path=tmp_path / "bare.ckpt", weights_only=True
        )
    callback = private(None, resume=first)
    fit(callback, Mine(), ckpt_path=first.last_checkpoint, weights_only=True)
    assert callback.outcome is not None
    assert callback.outcome.steps == 6


@pytest.mark.parametrize(
    "budget", [dppipe.Budget(epsilon=8.0, delta=DELTA), None], ids=["private", "not private"]
)
def test_a_module_that_a_callback_has_trained_is_refused_by_another(
    tmp_path: Path, budget: Any
) -> None:
    module = Mine()
    fit(private(tmp_path / "first", budget=budget), module)
    with pytest.raises(
        PrivacyRefusal,
        match=rf"whose layer\.weight was trained in {tmp_path / 'first'}.*fresh module",
    ):
        fit(private(tmp_path / "second"), module)
    shared = Mine()
    shared.layer.weight = module.layer.weight
    with pytest.raises(PrivacyRefusal, match=r"whose layer\.weight was trained"):
        fit(private(tmp_path / "second"), shared)
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize("how", ["deepcopy", "state dict", "one tensor", "load_from_checkpoint"])
def test_a_copy_of_trained_weights_in_a_module_is_refused_by_its_content(
    tmp_path: Path, how: str
) -> None:
    module = Mine()
    fit(private(tmp_path / "first"), module)
    copied = Mine()
    if how == "deepcopy":
        copied = copy.deepcopy(module)
    elif how == "state dict":
        copied.load_state_dict(
            torch.load(tmp_path / "first" / "checkpoints" / "final.ckpt", weights_only=True)
        )
    elif how == "one tensor":
        copied.layer.weight.data.copy_(module.layer.weight.data)
    else:
        copied = Mine.load_from_checkpoint(
            tmp_path / "first" / "checkpoints" / "last.ckpt", weights_only=True
        )
    with pytest.raises(
        PrivacyRefusal, match=f"no private run has trained, got those of {tmp_path / 'first'}"
    ):
        fit(private(tmp_path / "second"), copied)
    assert not (tmp_path / "second").exists()


def test_frozen_weights_that_two_runs_share_are_no_ones_training(tmp_path: Path) -> None:
    start = Mine().state_dict()
    for name in ("first", "second"):
        module = Mine()
        module.load_state_dict(start)
        module.layer.weight.requires_grad_(False)
        fit(private(tmp_path / name), module)
    assert (tmp_path / "second" / "privacy.md").exists()


def test_the_statement_names_the_modules_own_weights_as_an_assumption(tmp_path: Path) -> None:
    fit(private(tmp_path / "run"), Mine())
    assert (
        "weights that the module came with are taken as independent"
        in (tmp_path / "run" / "privacy.md").read_text()
    )


# Whole runs.


def verify(path: Path) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["ledger", "verify", str(path), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def final(done: Any) -> Path:
    return done.path / "checkpoints" / "final.ckpt"


def moved(form: str, weights: dict[str, torch.Tensor], source: Path, folder: Path) -> Path:
    """Save weights of a run elsewhere, in one of several forms."""
    path = folder / f"{form}.safetensors" if form == "safetensors" else folder / f"{form}.pt"
    if form == "safetensors":
        save_file(weights, path)
    elif form == "saved again":
        torch.save({name: value.clone() for name, value in reversed(weights.items())}, path)
    elif form == "partial":
        torch.save(weights | {"1.bias": torch.zeros(3)}, path)
    else:
        shutil.copy(source, path)
    return path


@pytest.mark.parametrize(
    "form", ["in its directory", "copy", "saved again", "safetensors", "partial", "directory gone"]
)
def test_weights_of_a_private_run_are_recognised_and_their_cost_is_added(
    run: Any, tmp_path: Path, form: str
) -> None:
    first = run()
    weights = first.weights()
    file = (
        final(first) if form == "in its directory" else moved(form, weights, final(first), tmp_path)
    )
    if form == "directory gone":
        shutil.rmtree(first.path)
    done = run(f"model.pretrained={file}")
    assert done.exit_code == 0, done.output
    both = cost((STEP, 20))
    assert done.summary["epsilon"] == pytest.approx(both, rel=1e-12)
    assert done.rows[-1]["epsilon"] == done.summary["epsilon_spent"] == done.summary["epsilon"]
    assert done.rows[0]["epsilon"] >= cost((STEP, 11))
    assert done.summary["charged"] == done.summary["steps"] == 10
    assert verify(done.path)["epsilon"] == pytest.approx(both, rel=1e-12)
    assert verify(done.path)["earlier"] == 10
    said = (done.path / "privacy.md").read_text()
    assert f"weights of the private run {first.path} (10 charges" in said
    assert "taken as public" not in said


def test_auto_noise_lands_the_total_on_the_budget(run: Any) -> None:
    first = run()
    done = run(
        f"model.pretrained={final(first)}", "noise.noise_multiplier=auto", "budget.epsilon=3"
    )
    assert 2.99 < done.summary["epsilon"] <= 3
    later = PoissonSampledDpEvent(0.05, GaussianDpEvent(done.rows[0]["noise_multiplier"]))
    assert done.summary["epsilon"] == pytest.approx(cost((STEP, 10), (later, 10)), rel=1e-12)
    alone = run("noise.noise_multiplier=auto", "budget.epsilon=3")
    assert done.rows[0]["noise_multiplier"] > alone.rows[0]["noise_multiplier"]


def test_the_plan_is_the_same_in_plan_and_run_and_says_where_it_starts(
    run: Any, tmp_path: Path
) -> None:
    first = run()
    change = [
        "--set",
        f"model.pretrained={moved('safetensors', first.weights(), final(first), tmp_path)}",
    ]
    shown = CliRunner().invoke(app, ["plan", str(tmp_path / "spec.yaml"), *change, "--json"])
    done = run(change[1])
    assert json.loads(shown.output) == json.loads((done.path / "plan.json").read_text())
    told = CliRunner().invoke(app, ["plan", str(tmp_path / "spec.yaml"), *change]).output
    assert "10 charges, epsilon" in told
    assert f"starts from weights of {first.path}" in done.output.replace("\n", "")


def test_a_chain_of_three_runs_adds_up_whichever_of_them_is_gone(run: Any, tmp_path: Path) -> None:
    first = run()
    second = run(f"model.pretrained={final(first)}", "train.steps=5")
    shutil.rmtree(first.path)
    third = run(f"model.pretrained={final(second)}", "train.steps=3")
    assert third.summary["epsilon"] == pytest.approx(cost((STEP, 18)), rel=1e-12)
    assert verify(third.path)["epsilon"] == pytest.approx(cost((STEP, 18)), rel=1e-12)
    copied = moved("copy", second.weights(), final(second), tmp_path)
    shutil.rmtree(second.path)
    again = run(f"model.pretrained={copied}", "train.steps=3")
    assert again.summary["epsilon"] == third.summary["epsilon"]


def test_a_run_that_two_files_lead_to_is_counted_once(run: Any) -> None:
    """The head was trained in the second run; the rest of its weights are the first run's, in the second one's chain too."""
    first = run("model={kind: mlp, hidden: [5]}")
    second = run(
        f'model={{kind: mlp, hidden: [5], pretrained: {final(first)}, trainable: ["3.*"]}}'
    )
    third = run(f"model={{kind: mlp, hidden: [5], pretrained: {final(second)}}}")
    assert third.summary["epsilon"] == pytest.approx(cost((STEP, 30)), rel=1e-12)


@pytest.mark.parametrize("copied", [False, True], ids=["in its directory", "copy"])
def test_a_run_without_a_budget_passes_on_whose_weights_it_started_from(
    run: Any, tmp_path: Path, copied: bool
) -> None:
    first = run()
    plain = run(f"model.pretrained={final(first)}", "budget=none", "data.size=1200")
    assert plain.exit_code == 0, plain.output
    file = moved("copy", {}, final(plain), tmp_path) if copied else final(plain)
    third = run(f"model.pretrained={file}")
    assert third.exit_code == 0, third.output
    assert third.summary["epsilon"] == pytest.approx(cost((STEP, 20)), rel=1e-12)


DISJOINT = "model.pretrained={{path: {}, records: disjoint}}"


@pytest.mark.parametrize(
    ("steps", "larger"), [(3, 10), (20, 20)], ids=["theirs is larger", "ours is larger"]
)
def test_of_disjoint_records_the_larger_cost_is_claimed(run: Any, steps: int, larger: int) -> None:
    first = run()
    done = run(DISJOINT.format(final(first)), "data.size=1200", f"train.steps={steps}")
    assert done.exit_code == 0, done.output
    assert done.summary["epsilon"] == pytest.approx(cost((STEP, larger)), rel=1e-12)
    assert done.rows[0]["epsilon"] >= cost((STEP, 10)) * (1 - 1e-12)
    assert verify(done.path)["epsilon"] == pytest.approx(cost((STEP, larger)), rel=1e-12)
    assert "the larger of the two costs is claimed" in (done.path / "privacy.md").read_text()
    again = CliRunner().invoke(
        app, ["run", str(done.path / "config.yaml"), "--run-dir", str(done.path.parent / "again")]
    )
    assert again.exit_code == 0, again.output


def test_disjoint_records_of_the_same_data_block_are_refused(run: Any) -> None:
    refused = run(DISJOINT.format(final(run())))
    assert refused.exit_code == 3
    assert "model.pretrained.records: expected same" in refused.output
    assert not refused.path.exists()


def test_a_stated_disjoint_run_above_the_budget_is_refused(run: Any) -> None:
    refused = run(
        DISJOINT.format(final(run())), "data.size=1200", "budget.epsilon=2", "train.steps=1"
    )
    assert refused.exit_code == 3
    assert "model.pretrained: expected weights that cost less than epsilon 2" in refused.output


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            [],
            ["budget.relation=add_remove", "sampler.expected_batch_size=40"],
            "budget.relation: expected zero_out",
        ),
        ([], ["budget.epsilon=2"], r"cost 2.156 at delta 1e-05 before the first step"),
        ([], ["budget.epsilon=2.157"], "which it starts from, cost epsilon 2.156"),
        (["reproducible=true"], [], "expected weights of a run with secret noise"),
    ],
    ids=["other relation", "nothing left", "not one step left", "seeded"],
)
def test_weights_that_can_not_be_counted_are_refused_with_nothing_written(
    run: Any, first: list[str], second: list[str], message: str
) -> None:
    refused = run(f"model.pretrained={final(run(*first))}", *second)
    assert refused.exit_code == 3, refused.output
    assert message in refused.output
    assert not refused.path.exists()


def test_weights_of_an_unprotected_run_on_the_same_data_are_refused_and_on_other_data_taken_as_public(
    run: Any,
) -> None:
    plain = run("budget=none")
    refused = run(f"model.pretrained={final(plain)}")
    assert refused.exit_code == 3
    assert "trained on the same data without privacy" in refused.output
    done = run(f"model.pretrained={final(plain)}", "data.size=1200")
    assert done.exit_code == 0, done.output
    said = (done.path / "privacy.md").read_text()
    assert (
        "They are taken as public: if they were trained on these records, the cost of that training adds"
        in said
    )


def test_weights_inside_a_run_that_has_not_ended_are_refused(run: Any) -> None:
    first = run()
    (first.path / "summary.json").unlink()
    refused = run(f"model.pretrained={final(first)}")
    assert refused.exit_code == 3
    assert f"dppipe resume {first.path}" in refused.output
    (first.path / "ledger.jsonl").unlink()
    assert run(f"model.pretrained={final(first)}").exit_code == 2


def test_weights_that_only_training_recognises_are_refused_before_anything_is_charged(
    run: Any, tmp_path: Path
) -> None:
    first = run()
    torch.save(first.weights(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    refused = run(f"model.pretrained={tmp_path / 'old.pt'}")
    assert refused.exit_code == 3
    assert "Planning knows them in files that torch.save or safetensors wrote" in refused.output
    assert not refused.path.exists()


def test_a_damaged_line_of_the_finished_runs_is_refused_where_weights_are_looked_for(
    run: Any, tmp_path: Path
) -> None:
    first = run()
    place = finished_runs().path
    with place.open("a") as file:
        file.write('{"version": 1, "hashes": [')
    refused = run(f"model.pretrained={moved('copy', {}, final(first), tmp_path)}")
    assert refused.exit_code == 3
    assert f"{place}:2: expected the line of a finished run" in refused.output.replace("\n", "")
    assert run().exit_code == 0
    assert len(place.read_text().splitlines()) == 3


def test_a_run_ends_well_where_the_finished_runs_can_not_be_written(
    run: Any, tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DPPIPE_STORE", str(tmp_path / "file" / "budgets.db"))
    done = run()
    assert done.exit_code == 0, done.output
    assert (done.path / "privacy.md").exists()
    assert "copies of its weights won't be recognised" in caplog.text


def interrupted(run: Any, monkeypatch: Any, *changes: str) -> Any:
    """Run the small spec in this process, which gets a real signal after its 5th step."""
    finish = RunRecord.step

    def then_signal(record: RunRecord, **facts: Any) -> None:
        finish(record, **facts)
        if record.ledger.rows == 5:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_signal)
        done = run(*changes)
    assert done.exit_code == 130, done.output
    return done


def test_a_composed_run_can_be_interrupted_and_resumed(run: Any, monkeypatch: Any) -> None:
    first = run()
    stopped = interrupted(run, monkeypatch, f"model.pretrained={final(first)}")
    assert stopped.summary["epsilon"] == pytest.approx(cost((STEP, 20)), rel=1e-12)
    (first.path / "ledger.jsonl").unlink()  # what is counted stands in the plan
    resumed = CliRunner().invoke(app, ["resume", str(stopped.path)])
    assert resumed.exit_code == 0, resumed.output
    assert stopped.summary["epsilon"] == pytest.approx(cost((STEP, 20)), rel=1e-12)
    assert verify(stopped.path)["epsilon"] == pytest.approx(cost((STEP, 20)), rel=1e-12)


def test_an_interrupted_runs_weights_count_as_all_that_its_plan_holds(
    run: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """When it was stopped may depend on what it had released: an early stop claims the whole plan, here as there."""
    stopped = interrupted(run, monkeypatch)
    state = torch.load(stopped.path / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    torch.save(
        {name.removeprefix("network."): value for name, value in state.items()},
        tmp_path / "taken.pt",
    )
    done = run(f"model.pretrained={tmp_path / 'taken.pt'}")
    assert done.exit_code == 0, done.output
    assert done.summary["epsilon"] == pytest.approx(cost((STEP, 20)), rel=1e-12)


def test_a_scope_counts_earlier_weights_of_its_own_runs_alone(run: Any) -> None:
    words = ["--epsilon", "20", "--delta", "1e-4"]
    for name in ("one", "two"):
        made = CliRunner().invoke(app, ["budget", "create", name, *words])
        assert made.exit_code == 0, made.output
    first = run("budget.scope=one")
    refused = run(f"model.pretrained={final(first)}", "budget.scope=two", "data.size=1200")
    assert refused.exit_code == 3
    assert "budget.scope: expected the weights of" in refused.output
    assert run(f"model.pretrained={final(first)}", "budget.scope=one").exit_code == 0


def test_a_statement_never_claims_more_updates_than_the_ledger_charged(run: Any) -> None:
    done = run()
    summary = done.path / "summary.json"
    summary.write_text(json.dumps(done.summary | {"steps": 11}))
    with pytest.raises(
        PrivacyRefusal,
        match=r"steps: expected at most 10, the steps that the ledger charged, got 11",
    ):
        write_statement(RunDirectory.open(done.path))
