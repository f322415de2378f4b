"""The gate as learners see it: units are handed to a function one by one, and bounded.

A learner of the package may use all of `Gate`; a plugin gets the three methods here and no more, so
whatever it computes is clipped by the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from dppipe.errors import UsageError
from dppipe.learners.gating.bounded import Bounded
from dppipe.learners.gating.unit_isolation import restoring
from dppipe.learners.gating.unit_sums import (
    SUM_SLACK,
    UnitValue,
    check_bound,
    clamped_unit_sum,
    clipped_unit_sum,
    rehearse_value,
)
from dppipe.learners.records.silenced_output import silenced
from dppipe.planning.plugin_releases import check_plugin_event
from dppipe.privacy.events.multipliers import mechanism_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from dppipe.learners.gate import Gate
    from dppipe.learners.plain_gate import PlainGate
    from dppipe.learners.records.training_records import TrainingRecords, Unit
    from dppipe.privacy.release import Release


_SELECTION = "ExponentialMechanismDpEvent"


class PluginGate:
    """What a plugin learner may ask of the gate.

    Guarantees:
    - One unit's presence moves what is noised, or scored, by at most the bound that is stated.
    - The noise, or the selection, is that of the event which is charged, on all units.
    - A mistake in the function shows on a made-up unit, before its release is charged.
    - The function changes nothing in the module. What it prints, warns of or logs is dropped.
    """

    def __init__(
        self, gate: Gate | PlainGate, records: TrainingRecords, made_up: Unit, module: nn.Module
    ) -> None:
        self.__gate = gate
        self.__records = records
        self.__made_up = made_up
        self.__module = module
        self.__busy = False

    def next(self) -> Release | None:
        """Return the next planned release; None where all are done."""
        self.__refuse_inside()
        return self.__gate.next()

    def sum_units(
        self, release: Release, value: UnitValue, *, shape: tuple[int, ...], bound: float
    ) -> Tensor:
        """Return the noisy sum of what a function returns for each unit.

        Args:
            release: What `next` has returned. Its event is a Gaussian's or a Laplace mechanism's.
            value: Returns a tensor of this shape for one unit; it keeps nothing between units.
            shape: The shape of a value, and of the sum.
            bound: Each value is clipped to this norm: the Euclidean one, or the sum of absolute
                values where the noise is Laplace noise.
        """
        self.__refuse_release(release)
        if type(release.event).__name__ == _SELECTION:
            raise UsageError(
                f"learner: expected a Gaussian's or a Laplace mechanism's event to add noise by, "
                f"got {_SELECTION} of {release.what!r}. Call select_units."
            )
        self.__rehearse(value, shape, bound=bound)
        order = 1 if mechanism_of(release.event) == "laplace" else 2

        def total(units: Iterator[Unit]) -> Tensor:
            return clipped_unit_sum(units, value, shape=shape, bound=bound, order=order)

        moved = bound * (1 + SUM_SLACK)
        return self.__gate.add_noise(release, lambda: self.__bounded(total, moved)).view(shape)

    def select_units(
        self, release: Release, scores: UnitValue, *, candidates: int, bound: float
    ) -> int:
        """Return the number of a candidate with a high score, summed over all units.

        Args:
            release: What `next` has returned. Its event is an exponential mechanism's.
            scores: Returns a score for each candidate, `[candidates]`, for one unit; it keeps
                nothing between units.
            candidates: How many there are.
            bound: Each score is clamped to [-bound, bound].
        """
        self.__refuse_release(release)
        if type(release.event).__name__ != _SELECTION:
            raise UsageError(
                f"learner: expected an {_SELECTION} to select by, got "
                f"{type(release.event).__name__} of {release.what!r}. Plan that event."
            )
        self.__rehearse(scores, (candidates,), bound=bound)

        def total(units: Iterator[Unit]) -> Tensor:
            return clamped_unit_sum(units, scores, candidates=candidates, bound=bound)

        return self.__gate.select(release, lambda: self.__bounded(total, bound))

    def __rehearse(self, value: UnitValue, shape: tuple[int, ...], *, bound: float) -> None:
        check_bound(bound)
        with self.__function_runs():
            rehearse_value(value, self.__made_up, shape)

    def __bounded(self, total: Callable[[Iterator[Unit]], Tensor], bound: float) -> Bounded:
        with self.__function_runs(), silenced():
            return Bounded(total(self.__records.units()), bound)

    @contextmanager
    def __function_runs(self) -> Iterator[None]:
        """Refuse calls of the gate from inside a function, and undo what it does to the module."""
        self.__busy = True
        try:
            with restoring(self.__module):
                yield
        finally:
            self.__busy = False

    def __refuse_release(self, release: Release) -> None:
        self.__refuse_inside()
        if release is None:
            raise UsageError(
                "learner: expected a planned release, got None from next(): all of them are done. "
                "Plan more in releases(), or ask for fewer."
            )
        check_plugin_event(release)

    def __refuse_inside(self) -> None:
        if self.__busy:
            raise UsageError(
                "gate: expected no call from inside a function of one unit, got one. Ask for a "
                "release before, and use what it returned."
            )

    def __getattr__(self, name: str) -> NoReturn:
        raise UsageError(
            f"gate: expected next, sum_units or select_units, got {name}. A plugin learner's "
            "values are bounded by the gate: these three are all that it may call."
        )
