"""`dppipe attack --kind gradients`: one table for one record, on a run's own clipping and noise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from dppipe.audit.attacks.gradients.inputs import clipped_gradient, released_gradient
from dppipe.audit.attacks.gradients.knowledge import flat
from dppipe.audit.attacks.gradients.setting import make_setting
from dppipe.audit.attacks.victim import open_victim
from dppipe.cli.app import app
from dppipe.engine import clipped_sum

QUICK = ("--steps", "30", "--starts", "1")


def attack(path: Path, *words: str):
    return CliRunner().invoke(app, ["attack", str(path), "--kind", "gradients", *words])


def test_clipping_hides_nothing_and_the_runs_noise_hides_the_record(run):
    made = run("model={kind: mlp, hidden: [16]}", "noise.noise_multiplier=2.0")
    result = attack(made.path, *QUICK)
    assert result.exit_code == 0, result.output
    folder = made.path / "attack" / "gradients-all"
    found = json.loads((folder / "attack.json").read_text())
    errors = {seen: row["exact"]["mse"] for seen, row in found["outcomes"].items()}
    assert errors["raw"] < 1e-12
    assert errors["clipped"] < 1e-12
    # Weights are random: all 8 numbers come within 0.1 with a chance below 1e-8.
    assert errors["noised"] > 1e-2
    assert found["outcomes"]["raw"]["exact"]["place"] == 1
    assert found["record"] == "made up"
    assert found["seed"] == 0
    assert (folder / "gradients.png").stat().st_size > 10_000
    assert "Clipping alone hides nothing" in result.output
    # Nothing real was read: nothing stands under nonprivate/, and the statement says of no attack.
    assert not (made.path / "nonprivate").exists()


def test_the_same_attack_finds_the_same(run):
    made = run()
    words = (*QUICK, "--json")
    one, again = (attack(made.path, *words) for _ in range(2))
    assert one.exit_code == 0, one.output
    assert json.loads(one.stdout) == json.loads(again.stdout)


@pytest.mark.parametrize(
    "changes",
    [
        ("clipping={kind: adaptive}",),
        ("clipping={kind: layerwise}",),
        ("noise={kind: constant, noise_multiplier: 20.0, mechanism: laplace}", "accountant=basic",
         "budget.epsilon=500"),
        ("data.task=regression", "data.classes=2"),
        ("data.classes=2",),
        ("data.normalize={kind: private, noise_multiplier: 4}",),
    ],
    ids=["adaptive", "layerwise", "laplace", "regression", "binary", "private statistics"],
)  # fmt: skip
def test_each_clipper_task_and_noise_has_its_table(run, changes):
    made = run(*changes)
    assert made.exit_code == 0, made.output
    result = attack(made.path, *QUICK, "--method", "exact", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["outcomes"]
    assert found["raw"]["exact"]["mse"] < 1e-6
    assert found["noised"]["exact"]["mse"] > found["raw"]["exact"]["mse"]


def test_a_training_record_needs_nonprivate_and_stays_under_nonprivate(run):
    made = run()
    refused = attack(made.path, *QUICK, "--record", "3")
    assert refused.exit_code == 3
    assert "--nonprivate" in refused.output
    assert attack(made.path, *QUICK, "--record", "800", "--nonprivate").exit_code == 2
    assert not (made.path / "attack").exists()
    assert not (made.path / "nonprivate").exists()
    result = attack(made.path, *QUICK, "--record", "3", "--nonprivate")
    assert result.exit_code == 0, result.output
    assert (made.path / "nonprivate" / "attack" / "gradients-all" / "attack.json").exists()
    assert not (made.path / "attack").exists()
    assert "nonprivate/attack" in (made.path / "privacy.md").read_text()


def test_the_inputs_are_those_of_the_runs_own_step(run):
    made = run("model={kind: mlp, hidden: [16]}", "clipping.max_grad_norm=0.01")
    victim = open_victim(made.path, nonprivate=False)
    setting = make_setting(victim, record=None, seed=0)
    known, step = setting.known, setting.step
    clipped = clipped_gradient(known, setting.victim, step)
    expected = clipped_sum(known.model, known.loss, setting.victim, step.parts.clipping).sums
    torch.testing.assert_close(flat(clipped), flat(expected))
    assert float(flat(clipped).norm()) == pytest.approx(0.01, rel=1e-3)
    noise = flat(released_gradient(known, setting.victim, step, seed=0)) - flat(clipped)
    # 195 values: a seeded draw, whose deviation is within 20 % of the planned one.
    assert float(noise.std()) == pytest.approx(0.01 * step.noise_multiplier, rel=0.2)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--column", "1"), "--column: expected only with --kind inversion"),
        (("--steps", "0"), "--steps: expected at least 1, got 0"),
        (("--method", "exat"), "Did you mean 'exact'?"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(run, words, expected):
    made = run()
    result = attack(made.path, *words)
    assert result.exit_code == 2
    assert expected in result.output
    assert not (made.path / "attack").exists()
