"""The gate: what it refuses before anything is charged, and what noise a charged release gets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting
import pytest
import torch
from private_steps import GivenSources

from dppipe.clipping.flat import Flat
from dppipe.errors import DppipeError, PrivacyRefusal
from dppipe.learners.bounded import Beside, Bounded
from dppipe.learners.gate import Gate
from dppipe.learners.sources import NoiseSources
from dppipe.learners.upcoming import PlannedReleases
from dppipe.noise.constant import Constant
from dppipe.planning.planned_release import PlannedRelease
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.charges import Charge
from dppipe.privacy.events.multipliers import mechanism_of, noise_multiplier
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.privacy.release import Release
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.laplace import LaplaceStream
from dppipe.runs import ledger as ledger_module
from dppipe.runs.ledger import Ledger
from dppipe.sampling.full_batch import FullBatch

Z = 3.0
GAUSSIAN = dp_accounting.GaussianDpEvent(Z)


class Recording:
    """A source that adds no noise, and keeps what it was asked for and how many rows there were."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[tuple[list[float], float, float]] = []
        self.rows: list[int] = []

    def add_(self, flat: torch.Tensor, std: float, *, over: float = 1.0) -> torch.Tensor:
        self.asked.append((flat.tolist(), std, over))
        self.rows.append(self.path.read_bytes().count(b"\n"))
        return flat.div_(over)


class Opened:
    """A gate on releases of these events, with a ledger and a recording source of noise."""

    def __init__(self, folder: Path, *events: Any, what: str = "vote", **options: Any) -> None:
        parts = PrivateParts(
            FullBatch(),
            Flat(),
            Constant(noise_multiplier=30.0),
            Rdp(),
            Budget(epsilon=50.0, delta=1e-5),
        )
        releases = tuple(
            PlannedRelease.of(Release(what=what, event=event, facts={"number": number}))
            for number, event in enumerate(events or (GAUSSIAN, GAUSSIAN))
        )
        made = plan_privacy(parts, name="t", records=1000, steps=5)
        self.plan = made.model_copy(update={"releases": releases})
        self.ledger = Ledger.create(folder / "ledger.jsonl", plan=self.plan.to_json())
        self.noise = Recording(self.ledger.path)
        self.beside = Recording(self.ledger.path)
        self.upcoming = PlannedReleases(self.plan)
        purposes = {"release": self.noise, "noise": self.noise, "statistics": self.noise}
        sources = GivenSources(**purposes, count=self.beside)
        self.gate = Gate(
            self.ledger, self.upcoming, "zero_out", "example", sources=sources, **options
        )
        self.computed = 0

    def compute(self) -> Bounded:
        self.computed += 1
        return Bounded(torch.tensor([1.0, 2.0]), 1.0)

    def next(self) -> Release:
        release = self.gate.next()
        assert release is not None
        return release

    @property
    def charges(self) -> tuple[Charge, ...]:
        return read_ledger(self.ledger.path, plan=self.plan.to_json()).charges

    def expect_untouched(self, rows: int = 0) -> None:
        """Expect that so many releases were charged and computed, and nothing more."""
        assert (len(self.charges), self.computed, len(self.noise.asked)) == (rows, rows, rows)
        assert self.upcoming.done == rows


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


EVENTS: dict[str, Any] = {
    "gaussian": dp_accounting.GaussianDpEvent(0.7),
    "laplace": dp_accounting.LaplaceDpEvent(0.7),
    "poisson": dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(0.7)),
    "sampled laplace": dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.LaplaceDpEvent(0.7)),
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("what", ["vote", "statistics", "weights"])
@pytest.mark.parametrize("sensitivity", [1.0, 0.25, 12.5])
def test_noise_has_the_multiplier_of_the_charged_event_times_the_sensitivity(
    opened: Callable[..., Opened], event: str, what: str, sensitivity: float
) -> None:
    gate = opened(EVENTS[event], what=what)
    given = gate.gate.add_noise(
        gate.next(), lambda: Bounded(torch.tensor([8.0]), sensitivity, over=4.0)
    )
    assert gate.noise.asked == [([8.0], 0.7 * sensitivity, 4.0)]
    assert gate.beside.asked == []
    assert given.tolist() == [2.0]
    assert gate.charges[0].event == EVENTS[event]


@pytest.mark.parametrize(
    ("what", "purpose"),
    [("step", "noise"), ("statistics", "statistics"), ("vote", "release"), ("weights", "release")],
)
def test_releases_of_another_kind_than_steps_draw_from_another_stream(
    opened: Callable[..., Opened], what: str, purpose: str
) -> None:
    gate = opened(what="vote")
    asked: list[str] = []
    gate.gate.sources.get = lambda asked_for, *mechanism: (  # type: ignore[method-assign]
        asked.append(asked_for) or gate.noise
    )
    release = replace(gate.next(), what=what)
    gate.gate._add_noise(release, gate.compute(), std=1.0)
    assert asked == [purpose]


@pytest.mark.parametrize("beside", [3.5, 6.0, 300.0])
def test_a_value_beside_takes_its_part_of_the_multiplier(
    opened: Callable[..., Opened], beside: float
) -> None:
    gate = opened()
    second = Beside(torch.tensor([5.0, 7.0]), 0.5, beside)
    value = torch.tensor([8.0])
    gate.gate.add_noise(gate.next(), lambda: Bounded(value, 2.0, over=10.0, beside=second))
    ((main, std, over),) = gate.noise.asked
    assert (main, over) == ([8.0], 10.0)
    assert gate.beside.asked == [([5.0, 7.0], beside * 0.5, 10.0)]
    # One unit moves the two by 2 and 1/2: together as far, in standard deviations, as one release
    # with the multiplier that is charged.
    moved = math.hypot(2.0 / std, 0.5 / (beside * 0.5))
    assert moved == pytest.approx(1 / Z, rel=1e-12)
    assert (value.tolist(), second.value.tolist()) == (
        pytest.approx([0.8]),
        pytest.approx([0.5, 0.7]),
    )
    assert len(gate.charges) == 1


@pytest.mark.parametrize("beside", [Z, Z / 2, 0.0, -1.0])
def test_a_value_beside_that_uses_up_the_release_is_not_released(
    opened: Callable[..., Opened], beside: float
) -> None:
    gate = opened()
    second = Beside(torch.tensor([5.0]), 0.5, beside)
    with pytest.raises(PrivacyRefusal, match="use up the whole release"):
        gate.gate.add_noise(gate.next(), lambda: Bounded(torch.ones(1), 1.0, beside=second))
    assert (gate.noise.asked, gate.beside.asked) == ([], [])


@pytest.mark.parametrize("number", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("name", ["sensitivity", "over"])
def test_a_value_without_a_finite_bound_is_not_released(
    opened: Callable[..., Opened], name: str, number: float
) -> None:
    gate = opened()
    numbers = {"sensitivity": 1.0, "over": 1.0, name: number}
    with pytest.raises(PrivacyRefusal, match="Nothing was released"):
        gate.gate.add_noise(gate.next(), lambda: Bounded(torch.ones(1), **numbers))
    assert gate.noise.asked == []


@pytest.mark.parametrize(
    "event", [dp_accounting.NoOpDpEvent(), dp_accounting.ComposedDpEvent([GAUSSIAN, GAUSSIAN])]
)
def test_an_event_without_a_multiplier_releases_nothing(
    opened: Callable[..., Opened], event: Any
) -> None:
    gate = opened(event)
    with pytest.raises(PrivacyRefusal, match="expected one with a noise multiplier"):
        gate.gate.add_noise(gate.next(), gate.compute)
    assert gate.noise.asked == []


def test_diagnostics_see_the_noise_before_it_is_added(opened: Callable[..., Opened]) -> None:
    gate = opened()
    seen: list[tuple[float, int]] = []
    diagnose = lambda std: seen.append((std, len(gate.noise.asked)))  # noqa: E731
    gate.gate.add_noise(gate.next(), lambda: Bounded(torch.ones(1), 2.0, diagnose=diagnose))
    assert seen == [(2.0 * Z, 0)]


def test_what_another_row_has_paid_for_is_charged_for_nothing_and_names_that_row(
    opened: Callable[..., Opened],
) -> None:
    gate = opened(covered_by="ab" * 32)
    gate.gate.add_noise(gate.next(), gate.compute)
    (charge,) = gate.charges
    assert (charge.count, charge.covered_by) == (0, "ab" * 32)


def test_the_event_names_the_distribution_that_is_drawn() -> None:
    for name, event in EVENTS.items():
        assert mechanism_of(event) == ("laplace" if "laplace" in name else "gaussian")
        assert noise_multiplier(event) == 0.7


def test_every_purpose_has_one_stream_with_a_key_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys: list[bytes] = []

    def noted(init: Any) -> Any:
        def made(self: Any, key: bytes, **options: Any) -> None:
            keys.append(key)
            init(self, key, **options)

        return made

    monkeypatch.setattr(GaussianStream, "__init__", noted(GaussianStream.__init__))
    monkeypatch.setattr(LaplaceStream, "__init__", noted(LaplaceStream.__init__))
    for seed in (None, 7):
        keys.clear()
        sources = NoiseSources(seed)
        purposes = ("noise", "count", "statistics", "release")
        first = [sources.get(purpose) for purpose in purposes]  # type: ignore[arg-type]
        again = [sources.get(purpose) for purpose in purposes]  # type: ignore[arg-type]
        assert all(one is other for one, other in zip(first, again, strict=True))
        assert len(set(keys)) == len(keys) == len(purposes)
        assert not any(key.hex() in repr(sources) or str(key) in repr(sources) for key in keys)


@pytest.mark.parametrize("secure", [False, True])
def test_every_gaussian_stream_of_a_secure_run_is_secure(
    secure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []
    init = GaussianStream.__init__

    def noted(self: GaussianStream, key: bytes, *, secure: bool = False) -> None:
        made.append(secure)
        init(self, key, secure=secure)

    monkeypatch.setattr(GaussianStream, "__init__", noted)
    sources = NoiseSources(secure=secure)
    for purpose in ("noise", "count", "statistics", "release"):
        sources.get(purpose)  # type: ignore[arg-type]
    assert made == [secure] * 4
