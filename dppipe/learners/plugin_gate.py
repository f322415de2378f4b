"""The gate as learners see it: units are handed to a function one by one, and bounded.

A learner of the package may use all of `Gate`; a plugin gets the three methods here and no more, so
whatever it computes is clipped by the gate.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dppipe.errors import UsageError
from dppipe.learners.bounded import Bounded
from dppipe.learners.unit_sums import UnitValue, clamped_unit_sum, clipped_unit_sum, rehearse_value
from dppipe.privacy.events.multipliers import mechanism_of

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.learners.gate import Gate
    from dppipe.learners.plain_gate import PlainGate
    from dppipe.learners.training_records import TrainingRecords, Unit
    from dppipe.privacy.release import Release


class PluginGate:
    """What a plugin learner may ask of the gate.

    Guarantees:
    - One unit moves what is noised, or scored, by at most the bound that is stated for it.
    - A mistake in the function shows on a made-up unit, before anything is charged.
    """

    def __init__(self, gate: Gate | PlainGate, records: TrainingRecords, made_up: Unit) -> None:
        self.__gate = gate
        self.__records = records
        self.__made_up = made_up

    def next(self) -> Release | None:
        """Return the next planned release; None where all are done."""
        return self.__gate.next()

    def sum_units(
        self, release: Release, value: UnitValue, *, shape: tuple[int, ...], bound: float
    ) -> Tensor:
        """Return the noisy sum of what a function returns for each unit.

        Args:
            release: What `next` has returned. Its event is a Gaussian's or a Laplace mechanism's.
            value: Returns a tensor of this shape for one unit.
            shape: The shape of a value, and of the sum.
            bound: Each value is clipped to this norm: the Euclidean one, or the sum of absolute
                values where the noise is Laplace noise.
        """
        rehearse_value(value, self.__made_up, shape)
        laplace = mechanism_of(release.event) == "laplace"
        compute = partial(self.__sum, value, shape=shape, bound=bound, order=1 if laplace else 2)
        return self.__gate.add_noise(release, compute).view(shape)

    def select_units(
        self, release: Release, scores: UnitValue, *, candidates: int, bound: float
    ) -> int:
        """Return the number of a candidate with a high score, summed over all units.

        Args:
            release: What `next` has returned. Its event is an exponential mechanism's.
            scores: Returns a score for each candidate, `[candidates]`, for one unit.
            candidates: How many there are.
            bound: Each score is clamped to [-bound, bound].
        """
        rehearse_value(scores, self.__made_up, (candidates,))

        def compute() -> Bounded:
            units = self.__records.units()
            total = clamped_unit_sum(units, scores, candidates=candidates, bound=bound)
            return Bounded(total, bound)

        return self.__gate.select(release, compute)

    def __sum(
        self, value: UnitValue, *, shape: tuple[int, ...], bound: float, order: int
    ) -> Bounded:
        units = self.__records.units()
        total = clipped_unit_sum(units, value, shape=shape, bound=bound, order=order)
        return Bounded(total, bound)

    def __getattr__(self, name: str) -> object:
        raise UsageError(
            f"gate: expected next, sum_units or select_units, got {name}. A plugin learner's "
            "values are bounded by the gate: these three are all that it may call."
        )
