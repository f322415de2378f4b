"""What a learner hands to the noise, seen at the gate's own seams, and replayed in a second run.

`Ledger.charge` says which release is under way. Each source of noise notes the value before noise and the noise's size.
In a second run, what came out in the first is put in the place of what comes out: both runs then have released the
same, whatever their records are. A new source of noise is added to `SOURCES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from dppipe.learners import gate as gates
from dppipe.learners.gate import Gate
from dppipe.learners.gating import selection
from dppipe.learners.gating.bounded import Bounded
from dppipe.privacy.charges import Charge
from dppipe.privacy.events.plain import event_to_data
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.laplace import LaplaceStream
from dppipe.randomness.spherical import SphericalStream
from dppipe.runs.ledger import Ledger

Part = Literal["value", "inside a solver", "on a solution"]
"""What is noised: a value; nothing yet, as a solver is given the noise; or what a solver has found."""
SOURCES: dict[str, type] = {
    "gaussian": GaussianStream,
    "laplace": LaplaceStream,
    "spherical": SphericalStream,
}
"""Streams with `add_(flat, std, over=...)`, by the distribution of their noise."""


@dataclass
class Draw:
    """One call of a source of noise, or one selection."""

    release: int
    """The number of the charge that stood last in a ledger, from 1."""
    source: str
    before: Tensor
    """What is noised; the scores; or the table of which medians are drawn."""
    std: float
    """The noise's size; of a selection, the sensitivity of its scores; of medians, one row."""
    over: float
    after: Tensor
    """What came out: noisy and divided, the number of a candidate, or medians."""
    part: Part = "value"
    monotone: bool = False
    """Of scores: whether it was stated that one unit moves all of them in one direction."""
    stated: float | None = None
    """The sensitivity that came with the value, where a gate's method was given one."""

    @property
    def noise(self) -> Tensor:
        """The noise in units of its own size."""
        return (self.after.double() * self.over - self.before.double()) / self.std


@dataclass
class Trace:
    """What was seen of one run."""

    charges: list[Charge] = field(default_factory=list)
    """In the order in which their rows became durable, those of covered runs included."""
    draws: list[Draw] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)

    def event(self, draw: Draw) -> dict[str, Any]:
        """Return the event that a draw was charged as."""
        return event_to_data(self.charges[draw.release - 1].event)

    def of_release(self, number: int) -> list[Draw]:
        return [draw for draw in self.draws if draw.release == number]


@contextmanager
def recorded(trace: Trace, *, replay: Trace | None = None) -> Iterator[None]:
    """Note what is charged and noised; a second run gets what the first one has released."""
    with pytest.MonkeyPatch.context() as patch:
        _note_charges(patch, trace)
        _note_keys(patch, trace)
        for name, source in SOURCES.items():
            _note_noise(patch, name, source, trace, replay)
        _note_selections(patch, trace, replay)
        if hasattr(gates, "draw_medians"):
            _note_medians(patch, trace, replay)
        _note_sensitivities(patch, trace)
        yield


def _note_charges(patch: pytest.MonkeyPatch, trace: Trace) -> None:
    usual = Ledger.charge

    def charge(self: Ledger, what: Charge) -> None:
        usual(self, what)
        trace.charges.append(what)

    patch.setattr(Ledger, "charge", charge)


def _note_keys(patch: pytest.MonkeyPatch, trace: Trace) -> None:
    usual = Keystream.__init__

    def made(self: Keystream, key: bytes, *args: Any, **options: Any) -> None:
        trace.keys.append(key)
        usual(self, key, *args, **options)

    patch.setattr(Keystream, "__init__", made)


def _note_noise(
    patch: pytest.MonkeyPatch, name: str, source: type, trace: Trace, replay: Trace | None
) -> None:
    usual: Callable[..., Tensor] = source.add_  # type: ignore[attr-defined]

    def add_(self: Any, flat: Tensor, std: float, *, over: float = 1.0) -> Tensor:
        before = flat.detach().clone()
        usual(self, flat, std, over=over)
        first = _replayed(trace, replay)
        if first is not None:
            flat.copy_(first.after)
        after = flat.detach().clone()
        trace.draws.append(Draw(len(trace.charges), name, before, float(std), float(over), after))
        return flat

    patch.setattr(source, "add_", add_)


def _note_selections(patch: pytest.MonkeyPatch, trace: Trace, replay: Trace | None) -> None:
    usual = selection.select_noisily

    def select_noisily(event: Any, scores: Any, **options: Any) -> int:
        chosen = usual(event, scores, **options)
        first = _replayed(trace, replay)
        after = torch.tensor(chosen) if first is None else first.after
        before = scores.value.detach().clone()
        number = len(trace.charges)
        trace.draws.append(Draw(number, "selection", before, scores.sensitivity, 1.0, after))
        trace.draws[-1].monotone = getattr(scores, "monotone", False)
        return int(after)

    patch.setattr(gates, "select_noisily", select_noisily)


def _note_medians(patch: pytest.MonkeyPatch, trace: Trace, replay: Trace | None) -> None:
    usual = gates.draw_medians

    def draw_medians(release: Any, table: Tensor, *args: Any) -> Tensor:
        drawn = usual(release, table, *args)
        first = _replayed(trace, replay)
        after = drawn.clone() if first is None else first.after.clone()
        # One unit changes one row of the table.
        draw = Draw(len(trace.charges), "medians", table.clone(), 1.0, 1.0, after.clone())
        trace.draws.append(draw)
        return after

    patch.setattr(gates, "draw_medians", draw_medians)


def _note_sensitivities(patch: pytest.MonkeyPatch, trace: Trace) -> None:
    add_noise, perturb = Gate.add_noise, Gate.perturb

    def noted(compute: Callable[..., Bounded], stated: list[float]) -> Callable[..., Bounded]:
        def computed(*args: Any) -> Bounded:
            bounded = compute(*args)
            stated.append(bounded.sensitivity)
            return bounded

        return computed

    def note(start: int, stated: list[float], parts: Sequence[Part]) -> None:
        for draw, sensitivity, part in zip(trace.draws[start:], stated, parts, strict=False):
            draw.stated = sensitivity
            draw.part = part

    def adding(self: Gate, release: Any, compute: Any) -> Tensor:
        start, stated = len(trace.draws), []
        value = add_noise(self, release, noted(compute, stated))
        note(start, stated, ["value"])
        return value

    def perturbing(self: Gate, release: Any, solve: Any, **options: Any) -> Tensor:
        start, stated = len(trace.draws), [options["sensitivity"]]
        value = perturb(self, release, noted(solve, stated), **options)
        note(start, stated, ["inside a solver", "on a solution"])
        return value

    patch.setattr(Gate, "add_noise", adding)
    patch.setattr(Gate, "perturb", perturbing)


def _replayed(trace: Trace, replay: Trace | None) -> Draw | None:
    number = len(trace.draws)
    return None if replay is None or number >= len(replay.draws) else replay.draws[number]


# How far two runs are apart.


def multipliers(trace: Trace, number: int) -> list[float]:
    """Return the noise multiplier that each draw of a release was charged with."""
    draws = trace.of_release(number)
    event = trace.event(draws[0])
    parts = event.get("events") or [event] * len(draws)
    return [float(part.get("noise_multiplier", 0.0)) for part in parts]


def charged_for(trace: Trace, draw: Draw) -> float:
    """Return how far one unit's presence may move a draw's value, by the event that was charged."""
    if draw.source == "medians":
        # One row under every relation; what may move twice as far under replace_one is half of it.
        doubled = trace.charges[draw.release - 1].relation == "replace_one"
        return 0.5 if doubled else 1.0
    if draw.source == "selection":
        return draw.std
    place = [each is draw for each in trace.of_release(draw.release)].index(True)
    return draw.std / multipliers(trace, draw.release)[place]


def distance(source: str, first: Tensor, second: Tensor, *, count: int = 1) -> float:
    """Return the distance that a mechanism's proof is about.

    A release that is charged several times has as many equal parts; the largest distance of one
    part is returned.
    """
    if source == "medians":
        return float((first != second).any(1).sum())
    apart = (first.double() - second.double()).reshape(count, -1)
    order = {"laplace": 1, "selection": math.inf}.get(source, 2)
    return float(torch.linalg.vector_norm(apart, ord=order, dim=1).max())
