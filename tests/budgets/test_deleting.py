"""Deleting a scope: only an unused one goes, and never while a run reserves in it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import dp_accounting
import pytest

from dppipe.budgets import store as store_module
from dppipe.budgets.scopes import Scope
from dppipe.budgets.store import Store
from dppipe.errors import DppipeError, PrivacyRefusal, UsageError
from dppipe.privacy.filters.filters import Commitment

EVENT = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
PLAN = Commitment([(EVENT, 10)], "zero_out", "example", 0.5, 1e-7)


def clinic(name: str = "clinic", **terms: float) -> Scope:
    return Scope.make(name, **{"epsilon": 2.0, "delta": 1e-5, "order": 8.0} | terms)


def reserve(store: Store, run_id: str = "a", *, scope: str = "clinic") -> object:
    return store.reserve(scope, run_id, PLAN, run_dir="runs/a", plan_hash="ab")


@pytest.fixture
def store(place: str) -> Store:
    store = Store(place)
    store.create(clinic())
    return store


def test_an_unused_scope_goes_and_its_name_is_free(store: Store) -> None:
    store.delete("clinic")
    assert store.scopes() == []
    store.create(clinic(epsilon=3.0))
    assert store.status("clinic").scope.epsilon == 3.0


@pytest.mark.parametrize(
    "spent", [None, [], [(EVENT, 4)]], ids=["reserved", "settled at nothing", "charged"]
)
def test_a_used_scope_stays_with_its_history_and_names_its_runs(
    store: Store, spent: object
) -> None:
    reserve(store)
    if spent is not None:
        store.settle("a", spent)
    before = store.history("clinic")
    with pytest.raises(PrivacyRefusal, match=r"1 run: a \((reserved|settled), .*runs/a\)\."):
        store.delete("clinic")
    assert store.history("clinic") == before
    assert store.scopes() == ["clinic"]


def test_a_refusal_names_a_few_runs_and_counts_the_others(store: Store) -> None:
    for number in range(7):
        reserve(store, f"run{number}")
    with pytest.raises(PrivacyRefusal, match=r"7 runs: run0 .*, run4 [^,]*, [^,]*\) and 2 more"):
        store.delete("clinic")


def test_a_scope_that_does_not_exist_is_not_deleted(store: Store) -> None:
    with pytest.raises(UsageError, match=r"no scope named 'clinc' in .*\. Did you mean 'clinic'\?"):
        store.delete("clinc")


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "made anew"])
def test_a_scope_that_goes_while_a_run_is_measured_grants_nothing(
    store: Store, place: str, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """The slow part of a reservation lies between two transactions: all may change there."""

    def meanwhile(*_: object, **__: object) -> None:
        Store(place).delete("clinic")
        if again:
            Store(place).create(clinic(epsilon=3.0))

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "check_terms", meanwhile)
        with pytest.raises(DppipeError, match="made anew" if again else "no scope named"):
            reserve(store)
    assert store.find("a") is None


def test_of_a_reservation_and_a_deletion_at_one_moment_one_is_refused(
    store: Store, place: str
) -> None:
    def delete(scope: str, start: Barrier) -> bool:
        return done(lambda opened: opened.delete(scope), start)

    def run(scope: str, start: Barrier) -> bool:
        return done(lambda opened: reserve(opened, f"run of {scope}", scope=scope), start)

    def done(act: Callable[[Store], object], start: Barrier) -> bool:
        opened = Store(place)
        start.wait()
        try:
            act(opened)
        except DppipeError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        for scope in [f"scope{number}" for number in range(12)]:
            store.create(clinic(scope))
            start = Barrier(2)
            deleted, reserved = pool.submit(delete, scope, start), pool.submit(run, scope, start)
            assert deleted.result() != reserved.result()
            assert (scope in store.scopes()) == reserved.result()
            assert (store.find(f"run of {scope}") is not None) == reserved.result()


def test_the_database_itself_keeps_a_scope_with_entries(store: Store) -> None:
    reserve(store)
    with (
        pytest.raises(DppipeError, match=r"(?i)foreign key"),
        store._database.transaction() as connection,
    ):
        connection.exec_driver_sql("DELETE FROM dppipe_scopes WHERE name = 'clinic'")
    assert store.status("clinic").runs
