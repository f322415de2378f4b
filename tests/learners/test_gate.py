"""The gate: each release is charged and used once, as it was planned, or nothing is released."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting
import pytest
from gates import GAUSSIAN, Opened, Z

from dppipe.errors import DppipeError, PrivacyRefusal
from dppipe.learners.gating.bounded import Bounded
from dppipe.runs import ledger as ledger_module


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Open gates in folders of their own; their ledgers are closed at the end."""
    gates: list[Opened] = []

    def make(*events: Any, **options: Any) -> Opened:
        folder = tmp_path / str(len(gates))
        folder.mkdir()
        gates.append(Opened(folder, *events, **options))
        return gates[-1]

    yield make
    for each in gates:
        each.ledger.close()


def test_each_release_is_charged_computed_and_noised_once_in_the_plans_order(
    opened: Callable[..., Opened],
) -> None:
    gate = opened()
    for number in range(2):
        release = gate.next()
        assert release.facts == {"number": number}
        given = gate.gate.add_noise(release, gate.compute)
        assert given.tolist() == [1.0, 2.0]
        gate.expect_untouched(rows=number + 1)
    assert gate.gate.next() is None
    assert gate.noise.rows == [1, 2]
    assert [charge.facts["number"] for charge in gate.charges] == [0, 1]
    assert {(charge.what, charge.event, charge.count) for charge in gate.charges} == {
        ("vote", GAUSSIAN, 1)
    }


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace_one"])
@pytest.mark.parametrize("unit", ["example", "user"])
def test_a_row_states_the_relation_and_the_unit_of_the_gate(
    opened: Callable[..., Opened], relation: str, unit: str
) -> None:
    gate = opened(relation=relation, unit=unit)
    gate.gate.add_noise(gate.next(), gate.compute)
    (charge,) = gate.charges
    assert (charge.relation, charge.unit) == (relation, unit)


def test_a_release_is_refused_without_asking_for_it(opened: Callable[..., Opened]) -> None:
    gate = opened()
    with pytest.raises(PrivacyRefusal, match=r"expected a release that next\(\) has just returned"):
        gate.gate.add_noise(gate.plan.releases[0].release(), gate.compute)
    gate.expect_untouched()


def test_a_release_is_used_once(opened: Callable[..., Opened]) -> None:
    gate = opened()
    release = gate.next()
    gate.gate.add_noise(release, gate.compute)
    for _ in range(2):
        with pytest.raises(PrivacyRefusal, match="charged and used once"):
            gate.gate.add_noise(release, gate.compute)
    gate.expect_untouched(rows=1)


def test_a_release_whose_value_could_not_be_computed_stays_used(
    opened: Callable[..., Opened],
) -> None:
    gate = opened()
    release = gate.next()

    def fail() -> Bounded:
        raise RuntimeError("no value")

    with pytest.raises(RuntimeError, match="no value"):
        gate.gate.add_noise(release, fail)
    with pytest.raises(PrivacyRefusal, match="charged and used once"):
        gate.gate.add_noise(release, gate.compute)
    assert (len(gate.charges), gate.computed, gate.noise.asked) == (1, 0, [])
    assert gate.next().facts == {"number": 1}
    assert not gate.gate.computing


CHANGED: dict[str, dict[str, Any]] = {
    "cheaper event": {"event": dp_accounting.GaussianDpEvent(2 * Z)},
    "costlier event": {"event": dp_accounting.GaussianDpEvent(Z / 2)},
    "other mechanism": {"event": dp_accounting.LaplaceDpEvent(Z)},
    "sampled event": {"event": dp_accounting.PoissonSampledDpEvent(0.1, GAUSSIAN)},
    "no count": {"count": 0},
    "higher count": {"count": 2},
    "other name": {"what": "step"},
}


@pytest.mark.parametrize("change", CHANGED)
def test_a_changed_release_is_refused(opened: Callable[..., Opened], change: str) -> None:
    gate = opened()
    release = gate.next()
    with pytest.raises(PrivacyRefusal, match="Only facts may be added"):
        gate.gate.add_noise(replace(release, **CHANGED[change]), gate.compute)
    gate.expect_untouched()
    gate.gate.add_noise(release, gate.compute)
    gate.expect_untouched(rows=1)


def test_facts_may_be_added_and_stand_in_the_row_and_change_no_noise(
    opened: Callable[..., Opened],
) -> None:
    gate = opened()
    shown = replace(gate.next(), facts={"noise_multiplier": 1e-9, "votes": 5})
    gate.gate.add_noise(shown, gate.compute)
    assert gate.charges[0].facts == {"noise_multiplier": 1e-9, "votes": 5}
    assert gate.noise.asked == [([1.0, 2.0], Z, 1.0)]


@pytest.mark.parametrize("fact", [float("nan"), None, True])
def test_a_senseless_fact_releases_nothing(opened: Callable[..., Opened], fact: Any) -> None:
    gate = opened()
    with pytest.raises(PrivacyRefusal, match=r"facts\.votes"):
        gate.gate.add_noise(replace(gate.next(), facts={"votes": fact}), gate.compute)
    assert (gate.charges, gate.noise.asked) == ((), [])


def test_nothing_is_drawn_if_the_row_can_not_be_written(
    opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = opened()

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ledger_module.os, "write", full)
        with pytest.raises(DppipeError, match="Nothing was released"):
            gate.gate.add_noise(gate.next(), gate.compute)
    assert (gate.noise.asked, gate.beside.asked) == ([], [])
    with pytest.raises(DppipeError, match="closed or has failed"):
        gate.gate.add_noise(gate.next(), gate.compute)
    assert gate.noise.asked == []


def test_records_may_be_read_only_while_a_release_is_computed(
    opened: Callable[..., Opened],
) -> None:
    gate = opened()
    seen = [gate.gate.computing]

    def compute() -> Bounded:
        seen.append(gate.gate.computing)
        return gate.compute()

    release = gate.next()
    seen.append(gate.gate.computing)
    gate.gate.add_noise(release, compute)
    seen.append(gate.gate.computing)
    assert seen == [False, False, True, False]
