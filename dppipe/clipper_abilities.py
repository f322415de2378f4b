"""What a clipper can do beside shrinking gradients: one small protocol for each ability.

A clipper has an ability where it defines the methods; its base class defines none of them. The
functions ask a clipper by its protocol, and return what holds for one without the ability.
The file is outside `dppipe.clipping` because spec and engine, which don't know clippers, ask too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from torch import Tensor

    from dppipe.privacy.budget import Relation

State = Mapping[str, Any]
"""What a clipper keeps between steps: numbers, tuples and tensors, which a checkpoint can hold."""


class Factors(Protocol):
    """A clipper in the state of one step."""

    def factors(self, norms: Tensor, bounds: Tensor, /) -> Tensor:  # [groups] twice -> [groups]
        """Return the factor by which each group of one example's gradient is multiplied."""


@runtime_checkable
class KeepsState(Protocol):
    """Keeps values between steps."""

    def init_state(self, group_sizes: Mapping[str, int], /) -> State:
        """Return the first state, from the number of parameters in each group."""


@runtime_checkable
class DependsOnState(Protocol):
    """Has factors that depend on its state by more than the bounds."""

    def at(self, state: State, /) -> Factors:
        """Return the clipper of this state."""


@runtime_checkable
class Adapts(Protocol):
    """Learns from values that were released with noise."""

    def update(self, state: State, released: Mapping[str, Any], /) -> State:
        """Return the next state.

        Args:
            state: The state that this step was clipped with.
            released: `means`, each statistic's noisy sum over the expected batch size; `gradient`,
                the noisy mean gradient by parameter, before `restore`; `noise_std`, its noise;
                `expected_batch_size`.
        """


@runtime_checkable
class ReleasesStatistics(Protocol):
    """Releases statistics with noise, in the same step and within its cost."""

    def statistics_std(self, expected_batch_size: float, /) -> float | None:
        """Return the noise on a batch's sum of one statistic; None for no statistics."""

    def statistics(self, norms: Tensor, bounds: Tensor, /) -> Tensor:  # [groups] twice -> [K]
        """Return one example's statistics; the core holds each to [-1/2, 1/2]."""


@runtime_checkable
class Averages(Protocol):
    """Averages the gradients of several examples before it clips: `averages` is true."""

    averages: Any

    def slots(
        self, indices: NDArray[numpy.int64], /, *, expected_batch_size: float
    ) -> NDArray[numpy.int64]:  # [B] -> [B]
        """Return the slot of each record by its own index alone; each slot is averaged."""


@runtime_checkable
class Transforms(Protocol):
    """Changes gradients before they are clipped, and undoes it after the noise."""

    def restore(self, state: State, gradient: dict[str, Tensor], /) -> dict[str, Tensor]:
        """Undo the change, by public numbers only."""


@runtime_checkable
class StatesSensitivity(Protocol):
    """Has another sensitivity than the norm of its bounds."""

    def sensitivity(self, bounds: Sequence[float], relation: Relation, /) -> float:
        """Return the farthest that one unit can move the clipped sum."""


@runtime_checkable
class Refuses(Protocol):
    """Can't be used under some relations."""

    def refusal(self, relation: Relation, /) -> str | None:
        """Return why not under this relation, and what to do; None where it can be used."""


@runtime_checkable
class MayFail(Protocol):
    """Has a bound that may fail with a small probability, which delta pays for."""

    def failure_delta(self, *, uses: float) -> float:
        """Return the delta to set aside; a run clips each record `uses` times."""


_known: dict[tuple[type, type], bool] = {}


def _has(clipper: object, ability: type) -> bool:
    """Return whether a clipper has an ability; each class is looked at once.

    Python takes tens of microseconds to compare an object with a protocol, and a private step asks
    several times.
    """
    question = (type(clipper), ability)
    if question not in _known:
        _known[question] = isinstance(clipper, ability)
    return _known[question]


def averages(clipper: object) -> TypeGuard[Averages]:
    """Return whether a clipper averages the gradients of several examples."""
    return _has(clipper, Averages)


def transforms(clipper: object) -> TypeGuard[Transforms]:
    """Return whether a clipper changes gradients before they are clipped."""
    return _has(clipper, Transforms)


def adapts(clipper: object) -> TypeGuard[Adapts]:
    """Return whether a clipper learns from released values."""
    return _has(clipper, Adapts)


def depends_on_state(clipper: object) -> TypeGuard[DependsOnState]:
    """Return whether a clipper's factors depend on its state by more than the bounds."""
    return _has(clipper, DependsOnState)


def states_sensitivity(clipper: object) -> TypeGuard[StatesSensitivity]:
    """Return whether a clipper has a sensitivity of its own."""
    return _has(clipper, StatesSensitivity)


def first_state(clipper: object, group_sizes: Mapping[str, int]) -> State:
    """Return the clipper's first state; empty where it keeps none."""
    return clipper.init_state(group_sizes) if isinstance(clipper, KeepsState) else {}


def in_state(clipper: Factors, state: State) -> Factors:
    """Return the clipper of a state; the same one for all where only its bounds depend on it."""
    return clipper.at(state) if depends_on_state(clipper) else clipper


def next_state(clipper: object, state: State, released: Mapping[str, Any]) -> State:
    """Return the clipper's state after a release; the same one where it doesn't adapt."""
    return clipper.update(state, released) if adapts(clipper) else state


def statistics_std(clipper: object, *, expected_batch_size: float) -> float | None:
    """Return the noise on a batch's sum of one statistic; None where there are no statistics."""
    if isinstance(clipper, ReleasesStatistics):
        return clipper.statistics_std(expected_batch_size)
    return None


def sensitivity(clipper: object, bounds: Sequence[float], relation: Relation) -> float:
    """Return the farthest that one unit can move the clipped sum.

    It is the norm of the bounds, and twice that where another unit takes its place, unless the
    clipper states another one.
    """
    if states_sensitivity(clipper):
        return clipper.sensitivity(bounds, relation)
    return math.hypot(*bounds) * (2 if relation == "replace_one" else 1)


def refusal(clipper: object, relation: Relation) -> str | None:
    """Return why the clipper can't be used under a relation; None where it can."""
    return clipper.refusal(relation) if isinstance(clipper, Refuses) else None


def failure_delta(clipper: object, *, uses: float) -> float:
    """Return the delta to set aside for a bound that may fail; 0 where it can't."""
    return clipper.failure_delta(uses=uses) if isinstance(clipper, MayFail) else 0.0
