"""A run and its shared budget: what is reserved, settled and refused."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app


@pytest.fixture
def scope(run, tmp_path, monkeypatch):
    monkeypatch.setenv("DPPIPE_STORE", str(tmp_path / "budgets.db"))
    made = CliRunner().invoke(
        app, ["budget", "create", "clinic", "--epsilon", "8", "--delta", "1e-5", "--like", str(tmp_path / "spec.yaml")]
    )
    assert made.exit_code == 0, made.output
    return lambda: CliRunner().invoke(app, ["budget", "show", "clinic", "--json"]).output


def test_a_run_in_a_scope_is_settled_when_it_ends(run, scope):
    done = run("budget.scope=clinic")
    assert done.exit_code == 0, done.output
    assert "settled" in scope()
    assert "clinic" in (done.path / "privacy.md").read_text()


def test_a_run_that_does_not_fit_is_refused_and_leaves_nothing(run, scope):
    for _ in range(20):
        done = run("budget.scope=clinic", "train.steps=40")
        if done.exit_code:
            break
    assert done.exit_code == 3, done.output
    assert "fit" in done.output
    assert not done.path.exists()


def test_a_scope_that_does_not_exist_is_refused(run, scope):
    done = run("budget.scope=nowhere")
    assert done.exit_code in (2, 3)
    assert "nowhere" in done.output
    assert not done.path.exists()
