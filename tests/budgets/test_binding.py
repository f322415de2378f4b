"""A run in a scope: bound before its first step, settled by its ledger, or by reconcile."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from private_steps import step_charge
from typer.testing import CliRunner

from dppipe.budgets.binding import Binding, bind_run, settle_run
from dppipe.budgets.fingerprints import data_contents
from dppipe.budgets.reconcile import joined_epsilon, reconcile
from dppipe.budgets.scopes import Scope
from dppipe.budgets.store import Store
from dppipe.cli.app import app
from dppipe.clipping.flat import Flat
from dppipe.component import Component, Field
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.noise.constant import Constant
from dppipe.noise.linear import Linear
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.runs.ledger import Ledger
from dppipe.sampling.poisson import Poisson

STEPS = 20
PARTS = PrivateParts(
    sampler=Poisson(sample_rate=0.01),
    clipping=Flat(),
    noise=Constant(noise_multiplier=1.0),
    accountant=Rdp(),
    budget=Budget(epsilon=5.0, delta=1e-5),
)


class SomeFile(Component, kind="some_file"):
    path: Path = Field()


class NoFile(Component, kind="no_file"):
    size: int = Field(3)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "budgets.db")
    store.create(Scope.make("clinic", epsilon=2.0, delta=1e-5, order=8.0))
    return store


class Run:
    """A run as training does it, but for the training."""

    def __init__(
        self, path: Path, *, parts: PrivateParts = PARTS, reproducible: bool = False
    ) -> None:
        self.path, self.parts = path, parts
        self.plan: StepPlan = plan_privacy(
            parts, name="test", records=1000, steps=STEPS, reproducible=reproducible
        )
        path.mkdir()
        (path / "plan.json").write_bytes(self.plan.to_json())
        self.ledger = Ledger.create(path / "ledger.jsonl", plan=self.plan.to_json())

    def bind(
        self, store: Store, scope: str = "clinic", *, data: Component | None = None
    ) -> Binding:
        return bind_run(
            store, scope, run_dir=self.path, plan=self.plan, parts=self.parts, data=data
        )

    def charge(self, steps: int) -> None:
        for _ in range(steps):
            step = self.ledger.rows + 1
            z = self.plan.noise_multiplier(step)
            self.ledger.charge(
                step_charge(
                    step=step,
                    event=self.parts.event(z, rate=0.01),
                    mechanism="gaussian",
                    sampler="poisson",
                    sample_rate=0.01,
                    noise_multiplier=z,
                    max_grad_norm=1.0,
                    relation="zero_out",
                    unit="example",
                    count=1,
                    epsilon=self.plan.epsilon_after(step),
                )
            )


def test_a_run_reserves_its_whole_plan_and_settles_what_its_ledger_says(
    store: Store, tmp_path: Path
) -> None:
    run = Run(tmp_path / "run")
    binding = run.bind(store)
    run.charge(5)
    assert settle_run(binding).outcome == "running"  # the ledger is still open
    run.ledger.close()
    settled = settle_run(binding)
    assert settled.outcome == "settled"
    assert settled.entry.cost.amount == pytest.approx(binding.entry.cost.amount * 5 / STEPS)
    assert settle_run(binding) == settled


def test_a_crashed_run_is_reconciled_from_its_ledger(store: Store, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    whole = run.bind(store).entry.cost.amount
    run.charge(7)
    assert [one.outcome for one in reconcile(store, "clinic")] == ["running"]
    run.ledger.close()
    assert store.status("clinic").used.amount == whole
    assert [one.outcome for one in reconcile(store, "clinic")] == ["settled"]
    assert store.status("clinic").used.amount == pytest.approx(whole * 7 / STEPS)
    assert reconcile(store, "clinic") == []


def test_a_torn_line_is_reconciled_as_the_costliest_step(store: Store, tmp_path: Path) -> None:
    parts = PrivateParts(
        PARTS.sampler,
        PARTS.clipping,
        Linear(noise_multiplier=1.2, end=0.9),
        PARTS.accountant,
        PARTS.budget,
    )
    run = Run(tmp_path / "run", parts=parts)
    run.bind(store)
    run.charge(3)
    run.ledger.close()
    ledger = run.path / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes()[:-300])
    reconcile(store, "clinic")
    spent = store.run_steps(store.status("clinic").runs[0].run_id)
    assert [count for _, count in spent] == [1, 1, 1]
    assert spent[-1][0].event.noise_multiplier == pytest.approx(1.08)


def damage_ledger(run: Path) -> None:
    (run / "ledger.jsonl").write_bytes(
        (run / "ledger.jsonl").read_bytes().replace(b"poisson", b"poissoN", 1)
    )


def delete_ledger(run: Path) -> None:
    (run / "ledger.jsonl").unlink()


def change_plan(run: Path) -> None:
    (run / "plan.json").write_bytes(b"{}")


@pytest.mark.parametrize("happen", [damage_ledger, delete_ledger, change_plan, shutil.rmtree])
def test_a_run_that_cannot_be_read_keeps_its_reservation(
    store: Store, tmp_path: Path, happen: object
) -> None:
    run = Run(tmp_path / "run")
    whole = run.bind(store).entry.cost.amount
    run.charge(3)
    run.ledger.close()
    happen(run.path)
    (kept,) = reconcile(store, "clinic")
    assert kept.outcome == "kept"
    assert str(run.path) in kept.why
    assert store.status("clinic").used.amount == whole


def test_a_moved_run_is_found_where_the_user_says(store: Store, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run_id = run.bind(store).entry.run_id
    run.charge(3)
    run.ledger.close()
    run.path.rename(tmp_path / "moved")
    assert [one.outcome for one in reconcile(store, "clinic")] == ["kept"]
    assert [
        one.outcome for one in reconcile(store, "clinic", moved={run_id: tmp_path / "moved"})
    ] == ["settled"]


def test_a_resumed_run_takes_up_its_reservation(store: Store, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    first = run.bind(store)
    run.charge(3)
    assert run.bind(store).entry == first.entry
    run.ledger.close()
    reconcile(store, "clinic")
    assert run.bind(store).entry.cost == first.entry.cost
    assert len(store.status("clinic").runs) == 1


def test_a_directory_that_is_used_again_is_another_run(store: Store, tmp_path: Path) -> None:
    first = Run(tmp_path / "run").bind(store).entry
    shutil.rmtree(tmp_path / "run")
    second = Run(tmp_path / "run").bind(store).entry
    assert first.run_id != second.run_id
    assert store.status("clinic").used.amount == 2 * first.cost.amount


def test_a_run_is_never_settled_from_another_that_stands_in_its_place(
    store: Store, tmp_path: Path
) -> None:
    """The same spec in the same directory, used again: plan and path are the first run's."""
    first = Run(tmp_path / "run")
    whole = first.bind(store).entry
    first.charge(9)
    first.ledger.close()
    shutil.rmtree(first.path)
    second = Run(tmp_path / "run")
    second.bind(store)
    second.charge(1)
    second.ledger.close()
    outcomes = {one.entry.run_id: one.outcome for one in reconcile(store, "clinic")}
    assert outcomes.pop(whole.run_id) == "kept"
    assert list(outcomes.values()) == ["settled"]
    assert store.find(whole.run_id) == whole


def test_a_moved_run_is_settled_from_where_it_stands_now(store: Store, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.bind(store)
    run.charge(3)
    run.ledger.close()
    run.path = run.path.rename(tmp_path / "moved")
    run.ledger = Ledger.open(run.path / "ledger.jsonl", plan=run.plan.to_json())
    binding = run.bind(store)
    assert binding.entry.run_dir == str(run.path)
    run.charge(6)
    run.ledger.close()
    assert settle_run(binding).entry.cost.amount == pytest.approx(
        binding.entry.cost.amount * 9 / STEPS
    )
    assert len(store.status("clinic").runs) == 1


def test_of_two_copies_on_one_machine_only_the_last_that_went_on_goes_on(
    store: Store, tmp_path: Path
) -> None:
    run = Run(tmp_path / "run")
    run.bind(store)
    run.charge(3)
    run.ledger.close()
    first, second = (
        shutil.copytree(run.path, tmp_path / "first"),
        shutil.copytree(run.path, tmp_path / "second"),
    )
    shutil.rmtree(run.path)
    run.path = first
    run.bind(store)
    run.path = second
    with pytest.raises(PrivacyRefusal, match="first: expected this run to be in one place"):
        run.bind(store)
    shutil.rmtree(first)
    run.bind(store)


@pytest.mark.parametrize("rule", ["rdp", "basic"])
def test_a_settled_run_that_was_put_back_is_refused(
    store: Store, tmp_path: Path, rule: str
) -> None:
    store.create(Scope.make("ward", epsilon=20.0, delta=1e-4, filter=rule))
    run = Run(tmp_path / "run")
    run.bind(store, "ward")
    run.charge(3)
    early = (run.path / "ledger.jsonl").read_bytes()
    run.charge(5)
    run.ledger.close()
    assert [one.outcome for one in reconcile(store, "ward")] == ["settled"]
    late = (run.path / "ledger.jsonl").read_bytes()
    (run.path / "ledger.jsonl").write_bytes(early)
    with pytest.raises(PrivacyRefusal, match="8 charges that were settled"):
        run.bind(store, "ward")
    (run.path / "ledger.jsonl").write_bytes(
        late[:-100]
    )  # a torn row counts, before and after its settlement
    run.bind(store, "ward")
    assert [one.outcome for one in reconcile(store, "ward")] == ["settled"]
    run.bind(store, "ward")


def test_a_run_with_charges_is_bound_only_where_it_was(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other.db")
    for name, place in (("clinic", other), ("ward", store)):
        place.create(Scope.make(name, epsilon=2.0, delta=1e-5, order=8.0))
    run = Run(tmp_path / "run")
    run.bind(store)
    run.charge(1)
    with pytest.raises(PrivacyRefusal, match="DPPIPE_STORE"):
        run.bind(other)
    with pytest.raises(PrivacyRefusal, match="'clinic'"):
        run.bind(store, "ward")
    (run.path / "budget.json").write_text("{")
    with pytest.raises(PrivacyRefusal, match="damaged"):
        run.bind(store)
    (run.path / "budget.json").unlink()
    with pytest.raises(PrivacyRefusal, match="no file"):
        run.bind(store)


def test_a_run_without_protection_has_no_scope(store: Store, tmp_path: Path) -> None:
    with pytest.raises(PrivacyRefusal, match="reproducible"):
        Run(tmp_path / "seeded", reproducible=True).bind(store)
    nothing = PrivateParts(PARTS.sampler, PARTS.clipping, PARTS.noise, PARTS.accountant, None)
    with pytest.raises(UsageError, match="budget: none"):
        Run(tmp_path / "plain", parts=nothing).bind(store)


@pytest.mark.parametrize("rule", ["basic", "advanced"])
def test_a_run_under_certificates_pays_for_its_whole_plan_unless_it_did_nothing(
    tmp_path: Path, rule: str
) -> None:
    store = Store(tmp_path / "budgets.db")
    store.create(Scope.make("clinic", epsilon=20.0, delta=1e-4, filter=rule))
    run, idle = Run(tmp_path / "run"), Run(tmp_path / "idle")
    binding, unused = run.bind(store), idle.bind(store)
    run.charge(1)
    run.ledger.close()
    idle.ledger.close()
    assert settle_run(binding).entry.cost == binding.entry.cost
    assert settle_run(unused).entry.cost.amount == 0


def test_a_renamed_copy_of_a_file_is_the_same_data(store: Store, tmp_path: Path) -> None:
    store.create(Scope.make("ward", epsilon=2.0, delta=1e-5, order=8.0))
    (tmp_path / "a.csv").write_text("1,2\n")
    shutil.copy(tmp_path / "a.csv", tmp_path / "b.csv")
    (tmp_path / "c.csv").write_text("1,3\n")
    Run(tmp_path / "one").bind(store, data=SomeFile(path=tmp_path / "a.csv"))
    with pytest.raises(PrivacyRefusal, match="copy"):
        Run(tmp_path / "two").bind(store, "ward", data=SomeFile(path=tmp_path / "b.csv"))
    Run(tmp_path / "three").bind(store, "ward", data=SomeFile(path=tmp_path / "c.csv"))


def test_contents_follow_files_not_names_and_options_where_there_is_no_file(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        for number, file in enumerate(["p", "q"] if name == "x" else ["r", "s"]):
            (tmp_path / name / file).write_text(str(number))
    assert sorted(data_contents(SomeFile(path=tmp_path / "x"))) == sorted(
        data_contents(SomeFile(path=tmp_path / "y"))
    )
    assert data_contents(NoFile()) == data_contents(NoFile(size=3)) != data_contents(NoFile(size=4))
    with pytest.raises(UsageError, match="nowhere"):
        data_contents(SomeFile(path=tmp_path / "nowhere"))


def test_the_joined_figure_is_below_what_the_filter_counts(store: Store, tmp_path: Path) -> None:
    assert joined_epsilon(store, "clinic") == 0
    Run(tmp_path / "run").bind(store)
    joined = joined_epsilon(store, "clinic")
    assert joined is not None
    assert 0 < joined < 2


def test_the_commands_make_show_reconcile_and_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPPIPE_STORE", str(tmp_path / "budgets.db"))
    call = CliRunner().invoke

    assert "no scopes" in call(app, ["budget", "list"]).stdout
    made = call(
        app,
        [
            "budget",
            "create",
            "clinic",
            "--epsilon",
            "2",
            "--delta",
            "1e-5",
            "--order",
            "8",
            "--json",
        ],
    )
    assert json.loads(made.stdout)["filter"] == {"kind": "rdp", "order": 8.0}
    assert (
        call(app, ["budget", "create", "clinic", "--epsilon", "2", "--delta", "1e-5"]).exit_code
        == 2
    )
    assert (
        call(app, ["budget", "create", "b/c", "--epsilon", "2", "--delta", "1e-5"]).exit_code == 2
    )
    assert (
        call(
            app, ["budget", "create", "bc", "--epsilon", "0.01", "--delta", "1e-9", "--order", "2"]
        ).exit_code
        == 3
    )
    run = Run(tmp_path / "run")
    binding = run.bind(Store())
    run.charge(2)
    run.ledger.close()
    shown = call(app, ["budget", "show", "clinic"]).stdout
    assert "had all runs been planned together" in shown
    assert binding.entry.run_id in shown
    assert "settled" in call(app, ["budget", "reconcile", "clinic"]).stdout
    assert "no reservation is open" in call(app, ["budget", "reconcile", "clinic"]).stdout
    assert "1 run;" in call(app, ["budget", "list"]).stdout
    exported = json.loads(call(app, ["budget", "export"]).stdout)
    assert [entry["state"] for entry in exported["scopes"][0]["history"]] == ["reserved", "settled"]
    assert call(app, ["budget", "show", "ward"]).exit_code == 2
