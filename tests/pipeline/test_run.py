"""Whole runs through the command: what is promised of every run directory."""

from __future__ import annotations

import json

import pytest
import torch

import dppipe


def test_a_run_ends_by_itself_and_leaves_every_file(run):
    done = run()
    assert done.exit_code == 0, done.output
    assert done.summary["status"] == "completed"
    assert done.summary["steps"] == done.summary["charged"] == len(done.rows) == 10
    assert 0 < done.summary["epsilon"] <= 8
    for name in (
        "config.yaml",
        "plan.json",
        "privacy.md",
        "privacy.json",
        "checkpoints/last.ckpt",
        "checkpoints/final.ckpt",
    ):
        assert (done.path / name).stat().st_size
    assert not list(done.path.rglob("*.tmp-*"))


@pytest.mark.parametrize(("accountant", "steps"), [("rdp", 881), ("pld", 1202)])
def test_the_run_stops_exactly_at_the_budget(run, accountant, steps):
    done = run(
        "sampler.sample_rate=0.01",
        "budget={epsilon: 2.0, delta: 1e-5}",
        "train={until: budget}",
        f"accountant={accountant}",
        "train.validate_every=500",
    )
    assert done.exit_code == 0, done.output
    assert done.summary["status"] == "budget_exhausted"
    assert done.summary["steps"] == len(done.rows) == steps
    assert done.summary["epsilon"] <= 2.0


def test_huge_noise_destroys_accuracy_and_no_budget_beats_the_private_run(run):
    """If noise weren't really added, every run would learn as the last one: 0.94, typically.

    Means over three runs. A false alarm needs a mean that is six standard deviations off what was
    seen (0.28, 0.49, 0.93 and 0.95).
    """

    def accuracy(*changes):
        runs = [
            run("train.steps=40", *changes).summary["metrics"]["val/accuracy"] for _ in range(3)
        ]
        return sum(runs) / len(runs)

    assert accuracy("noise.noise_multiplier=1000") < 0.75
    assert accuracy("noise.noise_multiplier=1.0") > 0.75
    assert accuracy("noise.noise_multiplier=30") < accuracy("budget=none") - 0.1


def test_without_a_budget_the_statement_says_not_private(run):
    done = run("budget=none")
    assert done.exit_code == 0, done.output
    assert done.rows == []
    assert done.summary["epsilon"] is None
    assert "NOT PRIVATE" in (done.path / "privacy.md").read_text()
    assert "NOT PRIVATE" in done.output


def test_a_reproducible_run_repeats_itself_bit_for_bit_and_says_it_gives_no_protection(run):
    one, two = run("reproducible=true"), run("reproducible=true")
    for a, b in zip(one.weights().values(), two.weights().values(), strict=True):
        assert torch.equal(a, b)
    assert "no protection" in (one.path / "privacy.md").read_text()


def test_two_runs_with_one_seed_draw_different_batches_and_noise(run):
    """Without noise to speak of, only the batches differ.

    With no batch to speak of, only the noise does.
    """
    for change in (
        ["noise.noise_multiplier=1e-6", "budget.epsilon=1e15"],
        ["sampler.sample_rate=1e-9"],
    ):
        one, two = run(*change), run(*change)
        assert not torch.equal(one.weights()["1.weight"], two.weights()["1.weight"]), one.output


@pytest.mark.parametrize("physical", [1, 7])
def test_physical_batch_sizes_give_the_same_weights(run, physical):
    one = run("reproducible=true", f"sampler.physical_batch_size={physical}")
    whole = run("reproducible=true", "sampler.physical_batch_size=1000")
    for a, b in zip(one.weights().values(), whole.weights().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)


def test_the_effective_spec_is_runnable_and_repeats_the_run(run):
    first = run("reproducible=true")
    again = first.path.parent / "again"
    from typer.testing import CliRunner

    from dppipe.cli.app import app

    result = CliRunner().invoke(
        app, ["run", str(first.path / "config.yaml"), "--run-dir", str(again)]
    )
    assert result.exit_code == 0, result.output
    assert json.loads((again / "plan.json").read_text()) == json.loads(
        (first.path / "plan.json").read_text()
    )
    assert torch.equal(
        torch.load(again / "checkpoints" / "final.ckpt", weights_only=True)["1.weight"],
        first.weights()["1.weight"],
    )


def test_a_directory_that_holds_a_ledger_is_refused_and_unchanged(run):
    first = run()
    before = (first.path / "ledger.jsonl").read_bytes()
    from typer.testing import CliRunner

    from dppipe.cli.app import app

    result = CliRunner().invoke(
        app, ["run", str(first.path / "config.yaml"), "--run-dir", str(first.path)]
    )
    assert result.exit_code == 3
    assert "ledger" in result.output
    assert (first.path / "ledger.jsonl").read_bytes() == before


def test_a_budget_that_no_step_fits_in_is_refused_and_nothing_is_written(run):
    done = run("noise.noise_multiplier=0.01", "budget.epsilon=0.1")
    assert done.exit_code == 3
    assert "not one step" in done.output
    assert not done.path.exists()


def test_the_model_comes_back_from_the_run_directory(run):
    done = run()
    model = dppipe.load_model(done.path)
    assert not model.training
    assert set(model.state_dict()) == set(done.weights())


def test_metrics_of_a_private_holdout_are_named_so(run):
    done = run("data.holdout=private")
    assert set(done.summary["metrics"]) == {"nonprivate/val/accuracy"}
    assert "holdout is private" in (done.path / "privacy.md").read_text()


def test_curves_follow_the_ledger(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    done = run()
    curves = EventAccumulator(str(done.path), size_guidance={"scalars": 0})
    curves.Reload()
    points = [
        (point.step, pytest.approx(point.value, rel=1e-6))
        for point in curves.Scalars("privacy/epsilon")
    ]
    assert points == [(row["step"], row["epsilon"]) for row in done.rows]
    assert [point.step for point in curves.Scalars("privacy/steps_remaining")] == list(range(1, 11))
    assert "val/accuracy" in curves.Tags()["scalars"]


@pytest.mark.parametrize("holdout", ["public", "private"])
def test_the_summary_has_every_score_of_the_last_validation(run, holdout):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    done = run(
        "train={epochs: 4}",
        f"data={{kind: synthetic, size: 1000, task: binary, holdout: {holdout}}}",
        "budget.epsilon=100",
    )
    assert done.exit_code == 0, done.output
    curves = EventAccumulator(str(done.path), size_guidance={"scalars": 0})
    curves.Reload()
    prefix = "val/" if holdout == "public" else "nonprivate/val/"
    for name in ("accuracy", "auroc"):
        values = [point.value for point in curves.Scalars(prefix + name)]
        assert len(values) == done.summary["validations"] > 1
        assert len(set(values)) > 1, "each validation has a score of its own"
        assert done.summary["metrics"][prefix + name] == pytest.approx(values[-1], rel=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        "noise={kind: linear, end: 0.5, noise_multiplier: 2.0}",
        "clipping=layerwise",
        "sampler=full_batch",
        "optimizer={kind: adam, lr: 0.01, schedule: {kind: cosine, warmup: 0.2}}",
        "data={kind: breast_cancer, holdout: public}",
        "train.precision=bf16-mixed",
        "model={kind: mlp, hidden: [8]}",
    ],
)
def test_every_kind_of_part_runs(run, change):
    done = run(change, "noise.noise_multiplier=20")
    assert done.exit_code == 0, done.output
    assert len(done.rows) == 10


def test_the_test_split_is_scored_once_and_the_statement_says_so(run):
    from typer.testing import CliRunner

    from dppipe.cli.app import app

    done = run("data.holdout=private")
    first = CliRunner().invoke(app, ["evaluate", str(done.path), "--json"])
    assert first.exit_code == 0, first.output
    assert set(json.loads(first.output)) == {"nonprivate/test/accuracy"}
    looks = json.loads((done.path / "privacy.json").read_text())["evaluation_looks"]
    assert looks == done.summary["validations"] + 1
    again = CliRunner().invoke(app, ["evaluate", str(done.path), "--json"])
    assert again.stdout == first.stdout
    assert "scored before" not in first.stderr
    assert "The test split was scored before" in again.stderr
    assert json.loads((done.path / "privacy.json").read_text())["evaluation_looks"] == looks


def test_a_look_at_the_test_split_counts_even_if_it_is_cut_off(run, monkeypatch):
    from typer.testing import CliRunner

    from dppipe.cli.app import app
    from dppipe.lightning.objectives import Objective

    done = run("data.holdout=private")

    def cut_off(*args):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Objective, "score", cut_off)
        assert CliRunner().invoke(app, ["evaluate", str(done.path)]).exit_code
    assert "The test split was looked at once" in (done.path / "privacy.md").read_text()
    assert CliRunner().invoke(app, ["evaluate", str(done.path)]).exit_code == 0
    assert "The test split was looked at 2 times" in (done.path / "privacy.md").read_text()


@pytest.mark.parametrize(
    ("name", "value"),
    [("begun", "yesterday"), ("ended", 7), ("starts", "2"), ("scope", {"a": 1}), ("scope", [1])],
)
def test_a_summary_with_a_fact_of_another_kind_is_named(run, name, value):
    from typer.testing import CliRunner

    from dppipe.cli.app import app

    done = run("train.steps=1")
    (done.path / "summary.json").write_text(json.dumps(done.summary | {name: value}))
    result = CliRunner().invoke(app, ["evaluate", str(done.path)])
    assert result.exit_code == 2, result.output
    assert "summary.json" in result.output.replace("\n", "")


@pytest.mark.parametrize("holdout", ["public", "private"])
def test_a_statement_says_of_a_run_without_validation_data_that_no_metrics_were_recorded(
    run, holdout
):
    without = run("data.split={train: 1, val: 0, test: 0}", f"data.holdout={holdout}")
    assert without.exit_code == 0, without.output
    assert "No validation metrics were recorded." in (without.path / "privacy.md").read_text()
    validated = run(f"data.holdout={holdout}")
    assert "No validation metrics were recorded." not in (validated.path / "privacy.md").read_text()
