"""A run and its shared budget: what is reserved, settled and refused."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from dppipe.budgets.scopes import Scope
from dppipe.budgets.store import Store
from dppipe.cli.app import app
from dppipe.errors import StoreFailed


@pytest.fixture
def scope(run, tmp_path, monkeypatch):
    monkeypatch.setenv("DPPIPE_STORE", str(tmp_path / "budgets.db"))
    made = CliRunner().invoke(
        app,
        [
            "budget",
            "create",
            "clinic",
            "--epsilon",
            "8",
            "--delta",
            "1e-5",
            "--like",
            str(tmp_path / "spec.yaml"),
        ],
    )
    assert made.exit_code == 0, made.output
    return lambda: CliRunner().invoke(app, ["budget", "show", "clinic", "--json"]).output


def test_a_run_in_a_scope_is_settled_when_it_ends(run, scope):
    done = run("budget.scope=clinic")
    assert done.exit_code == 0, done.output
    assert "settled" in scope()
    assert "clinic" in (done.path / "privacy.md").read_text()


def test_the_summary_holds_the_facts_of_the_scope_with_this_run_in_it(run, scope):
    first = run("budget.scope=clinic").summary["scope"]
    second = run("budget.scope=clinic").summary["scope"]
    shown = json.loads(scope())
    assert (first["runs"], second["runs"]) == (1, 2)
    assert 0 < first["epsilon_spent"] < second["epsilon_spent"] < second["epsilon"] == 8.0
    assert second["epsilon_spent"] == shown["epsilon_spent"]
    for name in ("name", "delta", "relation", "unit"):
        assert second[name] == shown[name]
    assert run().summary["scope"] is None


def test_the_facts_of_a_scope_survive_a_store_that_fails_at_the_end(run, scope, monkeypatch):
    status = Store.status
    looks = []

    def fails_later(store, *args, **facts):
        looks.append(args)
        if len(looks) > 3:
            raise StoreFailed("gone")
        return status(store, *args, **facts)

    monkeypatch.setattr(Store, "status", fails_later)
    facts = run("budget.scope=clinic").summary["scope"]
    assert len(looks) > 3
    assert (facts["name"], facts["runs"]) == ("clinic", 1)


def test_a_run_outside_the_scope_of_its_records_is_warned_with_the_line_to_add(run, scope):
    assert "warning" not in run().output  # no run was charged to the scope yet
    assert "warning" not in run("budget.scope=clinic").output
    done = run()
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert (
        "warning: these records stand in the shared budget 'clinic', which has spent epsilon"
        in said
    )
    assert "add `scope: clinic` to the spec's budget, or `--set budget.scope=clinic`." in said
    assert "warning" not in run("data.size=1001").output  # other records
    bare = " ".join(run("budget=none").output.split())
    assert "To charge it, add a budget with `scope: clinic` to the spec." in bare


def test_a_run_without_a_scope_makes_no_store(run, tmp_path, monkeypatch):
    monkeypatch.setenv("DPPIPE_STORE", str(tmp_path / "none" / "budgets.db"))
    assert run().exit_code == 0
    assert not (tmp_path / "none" / "budgets.db").exists()


def test_a_store_that_fails_does_not_end_a_run_without_a_scope(run, tmp_path, monkeypatch):
    (tmp_path / "budgets.db").write_text("not a database " * 100)
    monkeypatch.setenv("DPPIPE_STORE", str(tmp_path / "budgets.db"))
    done = run()
    assert done.exit_code == 0, done.output
    assert "warning: it isn't known whether these records stand in a shared" in done.output


def test_a_run_that_does_not_fit_is_refused_and_leaves_nothing(run, scope):
    for _ in range(20):
        done = run("budget.scope=clinic", "train.steps=40")
        if done.exit_code:
            break
    assert done.exit_code == 3, done.output
    assert "What fits: all its steps with" in done.output
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
    done = run(
        "budget.scope=ward"
    )  # only the reservation sees that the records are another scope's
    assert done.exit_code == 3, done.output
    assert "'clinic', which this very data set is charged to" in done.output
    assert not (tmp_path / "real").exists()
