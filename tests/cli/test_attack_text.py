"""What `dppipe plan` says of attackers: a block where a claim can be made, and none elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app

HEADING = "what any attacker can reach at most"
SPEC = """
version: 1
name: small
data:      {kind: synthetic, size: 400, features: 4, classes: 3}
model:     {kind: logistic}
optimizer: {kind: sgd, lr: 0.5}
sampler:   {kind: poisson, sample_rate: 0.1}
clipping:  {kind: flat, max_grad_norm: 1.0}
noise:     {kind: constant, noise_multiplier: 2.0}
accountant: {kind: rdp}
budget:    {epsilon: 8.0, delta: 1.0e-4}
train:     {steps: 8}
"""
USERS = (
    "data={kind: synthetic, size: 400, features: 4, classes: 3, users: 200}",
    "sampler={kind: user, sample_rate: 0.1}",
)
REPLACED = ("budget.relation=replace_one", "budget.epsilon=60", "accountant=pld")


@pytest.fixture
def plan(tmp_path: Path):
    """Return what `dppipe plan` prints of a small spec with changes."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)

    def show(*changes: str, words: tuple[str, ...] = ()) -> str:
        settings = [word for change in changes for word in ("--set", change)]
        done = CliRunner().invoke(app, ["plan", str(spec), *settings, *words])
        assert done.exit_code == 0, done.output
        assert max(map(len, done.output.splitlines())) <= 80 or words
        return done.output

    return show


def test_a_certified_plan_says_what_an_attacker_can_reach(plan) -> None:
    text = plan()
    limits = json.loads(plan(words=("--json",)))["attack_limits"]
    assert HEADING in text
    assert "ESTIMATE" not in text
    rates = [limit["true_positive_rate"] for limit in limits["membership"]]
    (row,) = [line for line in text.splitlines() if line.startswith("  records recognised")]
    shown = [float(cell) for cell in row.replace("records recognised", "").split("%")[:-1]]
    for share, rate in zip(shown, rates, strict=True):
        assert rate * 100 - 1e-9 <= share <= rate * 100 * 1.01
    assert f"mu {limits['mu']:g}, at every delta from 0.0001 up" in text


def test_an_estimate_is_marked(plan) -> None:
    text = plan("accountant=gdp")
    assert HEADING not in text
    assert "ESTIMATE, not a limit: what an attacker can reach" in text


@pytest.mark.parametrize("change", ["budget=none", "reproducible=true"])
def test_a_run_that_claims_nothing_says_nothing_of_attackers(plan, change: str) -> None:
    text = plan(change)
    assert "attacker" not in text
    assert "Gaussian DP" not in text


def test_users_are_called_users(plan) -> None:
    text = plan(*USERS)
    assert "  users recognised  " in text
    assert "  a user guessed  " in text


def test_under_replace_one_the_question_is_which_of_two(plan) -> None:
    text = plan(*REPLACED)
    assert "  which of two records  right in " in text
    assert "took part or not" not in text


def test_another_learner_says_it_too() -> None:
    spec = Path(dppipe.__file__).parents[1] / "pipelines" / "learners" / "mean.yaml"
    done = CliRunner().invoke(app, ["plan", str(spec)])
    assert HEADING in done.output
    assert max(map(len, done.output.splitlines())) <= 80
