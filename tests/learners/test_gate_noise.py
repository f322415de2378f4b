"""The noise of a release: the multiplier that is charged, times the sensitivity of the value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting
import pytest
import torch
from gates import GAUSSIAN, Opened, Z

from dppipe.errors import PrivacyRefusal
from dppipe.learners.gating.bounded import Beside, Bounded
from dppipe.learners.gating.sources import NoiseSources
from dppipe.privacy.events.multipliers import mechanism_of, noise_multiplier
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.laplace import LaplaceStream


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
    release = replace(gate.next(), what=what, facts={"step": 1})
    gate.gate._noise.add_(release, gate.compute(), std=1.0)
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
    with pytest.raises(PrivacyRefusal, match="expected one with a finite noise multiplier"):
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
