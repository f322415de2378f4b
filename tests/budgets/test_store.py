"""The store: never over budget, nothing lost, copies noticed, refusals that say what fits."""

from __future__ import annotations

import math
import os
import re
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting
import pytest

import dppipe
from dppipe.budgets.outlook import open_for_scope
from dppipe.budgets.scopes import Scope
from dppipe.budgets.store import Store
from dppipe.errors import BudgetExhausted, DppipeError, NoStore, PrivacyRefusal, UsageError
from dppipe.privacy.events.plain import event_from_data
from dppipe.privacy.events.sequences import Steps
from dppipe.privacy.filters.filters import Commitment

EVENT = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))


def plan(
    steps: int | Steps = 100,
    *,
    epsilon: float = 0.5,
    delta: float = 1e-7,
    relation: str = "zero_out",
    unit: str = "example",
) -> Commitment:
    return Commitment(
        [(EVENT, steps)] if isinstance(steps, int) else steps, relation, unit, epsilon, delta
    )


def reserve(
    store: Store,
    run_id: str,
    commitment: Commitment | None = None,
    *,
    scope: str = "clinic",
    **others: Any,
) -> float:
    given = {"run_dir": "runs/x", "plan_hash": "ab"} | others
    return store.reserve(scope, run_id, commitment or plan(), **given).cost.amount


@pytest.fixture
def store(place: str) -> Store:
    store = Store(place)
    store.create(Scope.make("clinic", epsilon=2.0, delta=1e-5, order=8.0))
    return store


def test_a_run_reserves_and_settles_what_it_spent(store: Store) -> None:
    reserved = reserve(store, "a")
    assert store.status("clinic").used.amount == reserved
    settled = store.settle("a", [(EVENT, 40)])
    assert settled.cost.amount == pytest.approx(0.4 * reserved)
    assert store.status("clinic").used.amount == settled.cost.amount
    assert store.settle("a", [(EVENT, 40)]) == settled
    assert [entry.state for entry in store.history("clinic")] == ["reserved", "settled"]
    with pytest.raises(DppipeError, match="another"):
        store.settle("a", [(EVENT, 39)])


def test_a_run_that_charged_nothing_costs_nothing(store: Store) -> None:
    reserve(store, "a")
    assert store.settle("a", []).cost.amount == 0


def test_a_crashed_runs_reservation_counts_in_full(store: Store) -> None:
    each = reserve(store, "a")
    reserve(store, "b")
    assert store.status("clinic").used.amount == 2 * each


def test_more_than_was_reserved_is_put_on_record_all_the_same(store: Store) -> None:
    reserved = reserve(store, "a")
    assert store.settle("a", [(EVENT, 200)]).cost.amount == pytest.approx(2 * reserved)


def test_a_run_that_does_not_fit_is_told_what_does(store: Store) -> None:
    reserve(store, "a", plan(600))
    with pytest.raises(BudgetExhausted) as caught:
        reserve(store, "b", plan(600))
    fewer = re.search(r"(\d+) of its 600 steps", str(caught.value))
    noise = re.search(r"noise multiplier of ([\d.]+)\)", str(caught.value))
    assert fewer
    assert noise
    louder = dp_accounting.PoissonSampledDpEvent(
        0.01, dp_accounting.GaussianDpEvent(float(noise[1]))
    )
    store.settle("a", [(EVENT, 600)])
    reserve(store, "b", plan(int(fewer[1])))
    store.settle("b", [])
    with pytest.raises(BudgetExhausted):
        reserve(store, "c", plan(int(fewer[1]) + 1))
    reserve(store, "d", plan([(louder, 600)]))


def test_a_refusal_points_to_reservations_that_crashed_runs_may_have_left(store: Store) -> None:
    reserve(store, "a", plan(600))
    told = r"Reservations are open \(1 run\): `dppipe budget reconcile clinic` settles"
    with pytest.raises(BudgetExhausted, match=told):
        reserve(store, "b", plan(600))
    store.settle("a", [(EVENT, 600)])
    with pytest.raises(BudgetExhausted) as caught:
        reserve(store, "b", plan(600))
    assert "reconcile" not in str(caught.value)


def test_a_full_scope_says_that_nothing_fits(store: Store) -> None:
    scope = store.status("clinic").scope
    reserve(store, "a")
    store.settle("a", [(EVENT, 2000)])
    assert store.status("clinic").used.amount > scope.capacity.amount
    with pytest.raises(BudgetExhausted, match="Nothing fits"):
        reserve(store, "b", plan(1))


def test_releases_that_do_not_fit_are_told_how_much_noise_would(store: Store) -> None:
    def releases(noise: float) -> Commitment:
        inside = dp_accounting.GaussianDpEvent(noise)
        composed = dp_accounting.ComposedDpEvent([inside, dp_accounting.GaussianDpEvent(9 * noise)])
        chosen = event_from_data({"type": "ExponentialMechanismDpEvent", "epsilon": 1 / noise})
        return replace(plan([(composed, 1), (chosen, 1)]), takes_steps=False)

    with pytest.raises(BudgetExhausted) as caught:
        reserve(store, "a", releases(0.5))
    found = re.search(
        r"What fits: its releases with ([\d.]+) times the noise\. Lower", str(caught.value)
    )
    assert found is not None
    factor = float(found[1])
    with pytest.raises(BudgetExhausted):
        reserve(store, "a", releases(0.5 * factor * 0.99))
    reserve(store, "a", releases(0.5 * factor))
    with pytest.raises(BudgetExhausted, match="don't fit, whatever their noise"):
        reserve(store, "b", plan_of_lasting_cost())


def plan_of_lasting_cost() -> Commitment:
    lasting = event_from_data({"type": "ZCDpEvent", "rho": 5.0, "xi": 0.0})
    return replace(plan([(lasting, 1)]), takes_steps=False)


def test_an_exact_fit_is_granted_and_one_step_more_is_not(store: Store) -> None:
    most = math.floor(store.status("clinic").scope.capacity.amount / reserve(store, "one", plan(1)))
    store.settle("one", [])
    with pytest.raises(BudgetExhausted):
        reserve(store, "more", plan(most + 1))
    reserve(store, "most", plan(most))


def test_a_resumed_run_keeps_its_reservation_or_makes_it_anew(store: Store) -> None:
    cost = reserve(store, "a", plan(600))
    assert reserve(store, "a", plan(600)) == cost
    assert len(store.history("clinic")) == 1
    store.settle("a", [(EVENT, 100)])
    reserve(store, "b", plan(500))
    with pytest.raises(BudgetExhausted):
        reserve(store, "a", plan(600))
    store.settle("b", [])
    assert reserve(store, "a", plan(600)) == cost
    assert store.settle("a", [(EVENT, 600)]).cost.amount == cost


def test_a_run_comes_back_only_to_its_own_scope_and_plan(store: Store) -> None:
    store.create(Scope.make("other", epsilon=2.0, delta=1e-5))
    reserve(store, "a")
    with pytest.raises(PrivacyRefusal, match="plan"):
        reserve(store, "a", plan_hash="cd")
    with pytest.raises(PrivacyRefusal, match="scope"):
        reserve(store, "a", scope="other")


@pytest.mark.parametrize(("name", "value"), [("relation", "replace_one"), ("unit", "user")])
def test_a_run_measured_otherwise_is_refused(store: Store, name: str, value: str) -> None:
    with pytest.raises(PrivacyRefusal, match=f"budget.{name}: expected"):
        reserve(store, "a", plan(**{name: value}))


def test_a_copy_of_the_data_under_another_name_shares_the_budget(store: Store) -> None:
    store.create(Scope.make("other", epsilon=2.0, delta=1e-5))
    mark = store.fingerprint([b"one file", b"another"])
    assert mark == store.fingerprint([b"another", b"one file"])
    assert mark != store.fingerprint([b"one fileanother"])
    assert store.scope_of(mark) is None
    reserve(store, "a", fingerprints=[mark])
    assert store.scope_of(mark) == "clinic"
    with pytest.raises(PrivacyRefusal, match="'clinic'"):
        reserve(store, "b", scope="other", fingerprints=[mark])
    reserve(store, "b", fingerprints=[mark])


def test_fingerprints_of_two_stores_say_nothing_to_each_other(tmp_path: Path) -> None:
    assert Store(tmp_path / "a.db").fingerprint([b"x"]) != Store(tmp_path / "b.db").fingerprint(
        [b"x"]
    )


def test_the_terms_of_a_scope_never_change(store: Store, place: str) -> None:
    before = store.status("clinic").scope
    with pytest.raises(UsageError, match="exists"):
        store.create(Scope.make("clinic", epsilon=20.0, delta=1e-5))
    assert Store(place).status("clinic").scope == before
    assert Store(place).scopes() == ["clinic"]


def test_an_unknown_scope_or_run_is_named(store: Store) -> None:
    with pytest.raises(UsageError, match="'clinik'"):
        reserve(store, "a", scope="clinik")
    with pytest.raises(UsageError, match="'nobody'"):
        store.settle("nobody", [])


def test_the_steps_of_all_runs_are_kept(store: Store) -> None:
    reserve(store, "a", plan(10))
    reserve(store, "b", plan(20))
    store.settle("a", [(EVENT, 3)])
    assert store.steps("clinic") == [(EVENT, 3), (EVENT, 20)]


def test_no_stated_cost_or_run_is_lost_under_many_processes(place: str, tmp_path: Path) -> None:
    """Of 32 processes four are killed; the sum stays in the capacity and no grant is lost."""
    store, logs = Store(place), tmp_path / "logs"
    logs.mkdir()
    store.create(Scope.make("busy", epsilon=2.0, delta=1e-5, filter="zcdp"))
    command = [
        sys.executable,
        str(Path(__file__).with_name("hammer.py")),
        place,
        "busy",
        str(logs),
        "32",
        "5",
        "4",
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(dppipe.__file__).parents[1])}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr

    history, capacity = store.history("busy"), store.status("busy").scope.capacity.amount
    standing: dict[str, float] = {}
    for entry in history:
        standing[entry.run_id] = entry.cost.amount
        assert math.fsum(standing.values()) <= capacity
    kept = {(entry.state, entry.run_id): entry.cost.amount for entry in history}
    assert len(kept) == len(history)
    words = {"granted": "reserved", "settled": "settled"}
    said = [line.split() for log in logs.iterdir() for line in log.read_text().splitlines()]
    for word, run_id, amount in said:
        if word != "refused":
            assert kept[words[word], run_id] == float(amount)
    assert math.fsum(standing.values()) == store.status("busy").used.amount
    assert {"granted", "settled", "refused"} == {word for word, _, _ in said}


def test_a_store_made_by_many_processes_at_once_is_one_store(place: str) -> None:
    code = (
        "import sys; from dppipe.budgets.store import Store; "
        "print(Store(sys.argv[1]).fingerprint([b'x']))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(dppipe.__file__).parents[1])}
    command = [sys.executable, "-c", code, place]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)
        for _ in range(4)
    ]
    answers = [process.communicate(timeout=120) for process in processes]
    assert len({out for out, _ in answers}) == 1, answers


def test_looking_for_a_store_makes_none(place: str) -> None:
    for _ in range(2):
        with pytest.raises(NoStore, match="no store of budgets is there"):
            Store(place, make=False)
        with pytest.raises(
            UsageError, match=r"budget\.scope: no scope named 'clinic': .* contains no store\."
        ) as caught:
            open_for_scope("clinic", place=place)
    assert place.partition("?")[0].rpartition("/")[2] in str(caught.value)
    Store(place).create(Scope.make("clinic", epsilon=2.0, delta=1e-5))
    assert Store(place, make=False).scopes() == ["clinic"]
    assert open_for_scope("clinic", place=place).scopes() == ["clinic"]


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    Store(tmp_path / "deep" / "budgets.db")
    assert stat.S_IMODE((tmp_path / "deep" / "budgets.db").stat().st_mode) == 0o600


def test_the_store_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPPIPE_STORE", raising=False)
    Store()
    assert (tmp_path / ".dppipe" / "budgets.db").exists()
    monkeypatch.setenv("DPPIPE_STORE", str(tmp_path / "elsewhere.db"))
    assert Store().place == str(tmp_path / "elsewhere.db")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("mysql://root@host/x", "postgresql://"),
        ("postgresql://me:secret@/x?host=/nowhere/at/all", "the store of budgets failed"),
        ("postgresql://me:secret@host:port/x", "expected a file or a URL"),
        ("postgresql://me:very@secret@host/x", "%40"),
        ("postgresql://me@/x?host=/nowhere/at/all&password=secret", "the store of budgets failed"),
        ("postgresql:/me:secret@host/x", "expected a file or a URL"),
        ("me:secret@host/x", "expected a file or a URL"),
        ("/proc/nowhere/x.db", "can be written"),
    ],
)
def test_a_store_that_cannot_be_opened_is_named_without_its_password(
    place: str, message: str
) -> None:
    if place.startswith("postgresql"):
        pytest.importorskip("psycopg")
    with pytest.raises(DppipeError, match=message) as caught:
        Store(place)
    assert "secret" not in str(caught.value)


def test_a_store_of_a_newer_version_is_left_as_it_is(place: str) -> None:
    store = Store(place)
    with store._database.transaction() as connection:
        connection.exec_driver_sql("UPDATE dppipe_facts SET value = '2' WHERE name = 'version'")
    with pytest.raises(UsageError, match="version 1, got 2"):
        Store(place)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    with pytest.raises(DppipeError, match="not a database"):
        Store(path)
