"""Shared budgets at the command line: made like a spec, looked at before a run, and never by a wrong name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dppipe.budgets.commitments import commit
from dppipe.budgets.scopes import Scope
from dppipe.budgets.store import Store
from dppipe.cli.app import app
from dppipe.errors import BudgetExhausted
from dppipe.planning.privacy_plan import make_plan, parts_of
from dppipe.spec.load import load_spec

ROOT = Path(__file__).parents[2]
SPEC = """\
version: 1
name: small
data:      {kind: synthetic, size: 1000, features: 8, classes: 3}
model:     {kind: logistic}
optimizer: {kind: sgd, lr: 0.5}
sampler:   {kind: poisson, sample_rate: 0.05}
clipping:  {kind: flat, max_grad_norm: 1.0}
noise:     {kind: constant, noise_multiplier: auto}
accountant: {kind: rdp}
budget:    {epsilon: 2.0, delta: 1.0e-6}
train:     {steps: 10}
"""
SCOPED = SPEC.replace("1.0e-6}", "1.0e-6, scope: clinic}")
UNREACHABLE = "postgresql://me:secret@/x?host=/nowhere/at/all"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPPIPE_STORE")
    (tmp_path / "s.yaml").write_text(SPEC)
    (tmp_path / "scoped.yaml").write_text(SCOPED)
    return tmp_path


def call(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def make_scope(name: str = "clinic", **terms: Any) -> Store:
    store = Store()
    store.create(Scope.make(name, **{"epsilon": 4.0, "delta": 1e-6, "order": 8.0} | terms))
    return store


# Made like a spec.


def test_a_scope_like_a_spec_has_its_terms_and_says_so() -> None:
    change = SPEC.replace("1.0e-6}", "1.0e-6, relation: replace_one}")
    Path("s.yaml").write_text(change.replace("poisson, sample_rate: 0.05", "full_batch"))
    made = call("budget", "create", "clinic", "--epsilon", "8", "--like", "s.yaml")
    assert made.exit_code == 0, made.output
    assert (
        "taken from s.yaml: delta 1e-06, relation replace_one, unit example, order" in made.stdout
    )
    assert "add `scope: clinic` to the budget in s.yaml" in made.stdout
    scope = Store().status("clinic").scope
    assert (scope.relation, scope.unit, scope.delta) == ("replace_one", "example", 1e-6)
    assert call("validate", "s.yaml", "--set", "budget.scope=clinic").exit_code == 0


def test_as_many_runs_like_the_spec_fit_as_was_said() -> None:
    made = call("budget", "create", "clinic", "--epsilon", "6", "--like", "s.yaml")
    count = int(re.search(r"room for (\d+) runs like it: each takes", made.stdout)[1])
    spec = load_spec("scoped.yaml")
    one = commit(make_plan(spec), parts_of(spec))
    for number in range(count):
        Store().reserve("clinic", f"run{number}", one, run_dir="runs", plan_hash="ab")
    with pytest.raises(BudgetExhausted):
        Store().reserve("clinic", "one more", one, run_dir="runs", plan_hash="ab")


def test_what_was_taken_from_a_spec_is_told_as_data() -> None:
    made = call("budget", "create", "clinic", "--epsilon", "6", "--like", "s.yaml", "--json")
    taken = json.loads(made.stdout)["taken_from_spec"]
    assert taken.pop("order") > 1
    assert taken == {"delta": 1e-6, "relation": "zero_out", "unit": "example"}


def test_an_option_that_the_spec_contradicts_is_refused_and_makes_nothing() -> None:
    for option, value, own in (
        ("--relation", "add_remove", "zero_out"),
        ("--unit", "user", "example"),
    ):
        made = call(
            "budget", "create", "clinic", "--epsilon", "8", "--like", "s.yaml", option, value
        )
        assert made.exit_code == 2
        assert f"{option}: expected {own}, as in s.yaml" in made.stderr
    assert not Path(".dppipe").exists()


def test_a_delta_that_is_given_wins_over_the_specs() -> None:
    words = ["budget", "create", "clinic", "--epsilon", "8", "--like", "s.yaml"]
    made = call(*words, "--delta", "1e-5", "--relation", "zero_out")
    assert "taken from s.yaml: relation zero_out, unit example" in made.stdout
    assert Store().status("clinic").scope.delta == 1e-5


@pytest.mark.parametrize(
    "words", [[], ["--like", "s.yaml", "--filter", "basic"]], ids=["no spec", "basic"]
)
def test_a_delta_that_no_spec_gives_is_asked_for(words: list[str]) -> None:
    made = call("budget", "create", "clinic", "--epsilon", "8", *words)
    assert made.exit_code == 2
    assert "--delta: expected the delta of all runs together, got none." in made.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--filter", "rpd"],
            "filter: expected one of rdp, zcdp, basic, advanced, got 'rpd'. Did you mean 'rdp'?",
        ),
        (
            ["--delta", "1e-6", "--unit", "usr"],
            "unit: expected example or user, got 'usr'. Did you mean 'user'?",
        ),
        (
            ["--delta", "0.5", "--like", "s.yaml"],
            "--delta: expected less than 1/records = 0.00125, as s.yaml has them",
        ),
    ],
    ids=["filter", "unit", "delta"],
)
def test_terms_that_make_no_sense_are_refused(words: list[str], told: str) -> None:
    like = [] if "--unit" in words or "--like" in words else ["--like", "s.yaml"]
    made = call("budget", "create", "clinic", "--epsilon", "8", *words, *like)
    assert made.exit_code in (2, 3)
    assert told in made.stderr
    assert not Path(".dppipe").exists()


def test_a_spec_that_no_scope_can_be_charged_with_is_named() -> None:
    Path("s.yaml").write_text(SPEC.replace("{epsilon: 2.0, delta: 1.0e-6}", "none"))
    made = call(
        "budget", "create", "clinic", "--epsilon", "8", "--delta", "1e-6", "--like", "s.yaml"
    )
    assert made.exit_code == 2
    assert made.stderr.startswith("--like: s.yaml can't be charged to a scope.")


def test_a_scope_that_its_own_spec_does_not_fit_in_says_so() -> None:
    made = call("budget", "create", "clinic", "--epsilon", "1", "--like", "s.yaml")
    assert "not one run like it fits: each takes" in made.stdout


def test_a_scope_of_a_spec_that_protects_users_is_measured_in_users() -> None:
    spec = str(ROOT / "pipelines" / "recipes" / "users.yaml")
    made = call("budget", "create", "people", "--epsilon", "20", "--like", spec, "--json")
    assert json.loads(made.stdout)["taken_from_spec"]["unit"] == "user"
    assert Store().status("people").scope.unit == "user"


def test_a_name_that_is_near_another_scopes_is_pointed_out() -> None:
    words = ["--epsilon", "8", "--delta", "1e-6"]
    assert "another" not in call("budget", "create", "clinic", *words).stdout
    assert "there is another scope, 'clinic'" in call("budget", "create", "clinik", *words).stdout
    again = call("budget", "create", "clinic", *words)
    assert again.exit_code == 2
    assert "`dppipe budget delete clinic`, while no run has used it" in again.stderr


# Looked at.


@pytest.mark.parametrize("command", ["plan", "validate"])
def test_the_scope_and_whether_the_run_fits_are_shown_within_80_columns(command: str) -> None:
    make_scope()
    shown = call(command, "scoped.yaml")
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.stdout.split())
    assert "clinic: epsilon 4 at delta 1e-06 for all runs, zero_out, one example" in text
    assert "spent epsilon 0 by 0 runs; 100.0% of the room is left" in text
    assert "fits yes, it takes" in text
    assert max(map(len, shown.output.splitlines())) <= 80


@pytest.mark.parametrize("command", ["plan", "validate"])
def test_a_run_that_does_not_fit_is_told_the_epsilon_that_does(command: str) -> None:
    make_scope(epsilon=2.5)
    words = ["scoped.yaml", "--set", "budget.epsilon=6"]
    shown = json.loads(call(command, *words, "--json").stdout)["shared_budget"]
    assert shown["fits"] is False
    advised = shown["problem"].rpartition("Or set budget.epsilon: ")[2].partition(",")[0]
    assert "fits NO. 'clinic' has 100.0%" in " ".join(call(command, *words).stdout.split())
    fits = call(command, "scoped.yaml", "--set", f"budget.epsilon={advised}", "--json")
    assert json.loads(fits.stdout)["shared_budget"]["fits"] is True


@pytest.mark.parametrize("command", ["plan", "validate", "run"])
def test_another_relation_than_the_scopes_is_refused_at_its_place(command: str) -> None:
    make_scope(relation="replace_one")
    shown = call(command, "scoped.yaml")
    assert shown.exit_code == 3
    assert (
        "scoped.yaml:10:1: budget.relation: expected replace_one, as scope 'clinic'" in shown.stderr
    )


@pytest.mark.parametrize("command", ["plan", "validate"])
def test_a_store_that_fails_is_a_warning_with_a_way_out(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setenv("DPPIPE_STORE", UNREACHABLE)
    shown = call(command, "scoped.yaml")
    assert shown.exit_code == 0, shown.output
    said = " ".join(shown.stderr.split())
    assert "warning: budget.scope: 'clinic' was not looked at." in said
    assert "set DPPIPE_STORE to the store that has the scope" in said
    assert "secret" not in shown.output


def test_a_run_whose_store_fails_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setenv("DPPIPE_STORE", UNREACHABLE)
    shown = call("run", "scoped.yaml")
    assert shown.exit_code == 1
    assert "set DPPIPE_STORE to the store that has the scope" in shown.stderr
    assert not Path("runs").exists()


def test_a_run_that_can_not_be_planned_here_still_shows_its_scope() -> None:
    make_scope()
    shown = call("validate", "scoped.yaml", "--set", "noise.noise_multiplier=0.1")
    text = " ".join(shown.stdout.split())
    assert shown.exit_code == 0, shown.output
    assert (
        "fits not known. The run can't be planned here: budget.epsilon: not one step fits" in text
    )


def test_looking_makes_no_store_and_loads_no_torch(here: Path) -> None:
    assert call("validate", "scoped.yaml").exit_code == 2
    assert call("plan", "scoped.yaml").exit_code == 2
    assert call("budget", "list").stdout == "no scopes in .dppipe/budgets.db\n"
    assert call("budget", "show", "clinic").exit_code == 2
    assert not Path(".dppipe").exists()
    make_scope()
    code = (
        "import sys\nfrom dppipe.cli import main\nsys.argv[1:] = ['validate', 'scoped.yaml']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code\n"
        "print(sorted({'torch', 'pytorch_lightning', 'lightning', 'rich'} & set(sys.modules)), code)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.splitlines()[-1] == "[] 0", done.stderr


# Mistyped.


@pytest.mark.parametrize("command", ["run", "plan", "validate"])
def test_a_mistyped_scope_of_a_spec_is_told_the_name_that_was_meant(command: str) -> None:
    make_scope()
    Path("scoped.yaml").write_text(SCOPED.replace("scope: clinic", "scope: Clinc"))
    shown = call(command, "scoped.yaml")
    assert shown.exit_code == 2
    place = "scoped.yaml:10:49: budget.scope: no scope named 'Clinc' in .dppipe/budgets.db."
    assert shown.stderr.startswith(f"{place} Did you mean 'clinic'?")
    assert not Path("runs").exists()


@pytest.mark.parametrize("command", ["show", "delete", "reconcile", "export"])
def test_a_mistyped_scope_of_a_command_is_told_the_name_that_was_meant(command: str) -> None:
    make_scope()
    shown = call("budget", command, "CLINC")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert (
        shown.stderr
        == "SCOPE: no scope named 'CLINC' in .dppipe/budgets.db. Did you mean 'clinic'?\n"
    )


def test_a_scope_like_no_other_is_told_how_to_make_it() -> None:
    make_scope()
    shown = call("plan", "scoped.yaml", "--set", "budget.scope=hospital")
    assert "Make it with `dppipe budget create hospital --epsilon E --like SPEC`." in shown.stderr


def test_a_scope_is_deleted_by_its_name() -> None:
    store = make_scope()
    deleted = call("budget", "delete", "clinic")
    assert (deleted.exit_code, deleted.stdout) == (0, "deleted clinic from .dppipe/budgets.db\n")
    assert store.scopes() == []
