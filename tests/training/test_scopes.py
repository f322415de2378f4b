"""A run and its shared budget: what is reserved, settled and refused."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from dppipe.budgets.scopes import Scope
from dppipe.budgets.store import Store
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


def test_a_run_that_dies_in_reserving_can_be_reconciled_and_resumed(run, scope, monkeypatch):
    reserve = Store.reserve

    def then_die(store, *args, **facts):
        reserve(store, *args, **facts)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "reserve", then_die)
        stopped = run("budget.scope=clinic")
    assert stopped.exit_code == 130, stopped.output
    assert '"state": "reserved"' in scope()
    done = CliRunner().invoke(app, ["budget", "reconcile", "clinic", "--json"])
    assert json.loads(done.stdout)[0]["entry"]["cost"]["amount"] == 0
    done = CliRunner().invoke(app, ["resume", str(stopped.path)])
    assert done.exit_code == 0, done.output
    assert '"state": "settled"' in scope()
    assert json.loads(scope())["used"]["amount"] > 0


def test_a_run_that_is_refused_leaves_nothing_behind_a_link(run, scope, tmp_path):
    Store().create(Scope.make("ward", epsilon=8.0, delta=1e-5))
    assert run("budget.scope=clinic").exit_code == 0
    (tmp_path / "real").mkdir()
    (tmp_path / "run2").symlink_to(tmp_path / "real")
    done = run("budget.scope=ward")  # only the reservation sees that the records are another scope's
    assert done.exit_code == 3, done.output
    assert "'clinic', which this very data set is charged to" in done.output
    assert not (tmp_path / "real").exists()
