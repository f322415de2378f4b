"""What the gate reads from an event: how much noise to add, and of which distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.events.base import noise_multiplier

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["Noise", "composed_noises", "mechanism_of", "noise_multiplier"]

Mechanism = Literal["gaussian", "laplace", "spherical"]


_IN_SOLVERS = (
    "GaussianDpEvent",
    "LogisticObjectiveDpEvent",
    "OneSignedObjectiveDpEvent",
    "SoftmaxObjectiveDpEvent",
    "SphericalDpEvent",
    "TwoSignedObjectiveDpEvent",
)
"""The events of noise that a solver is given: on all records, with a multiplier of its own."""
_ON_SOLUTIONS = ("GaussianDpEvent", "SphericalDpEvent")
"""The events of noise on what a solver returns."""


class Noise(NamedTuple):
    """One noise that is charged: its distribution, and its size over the sensitivity."""

    mechanism: Mechanism
    multiplier: float


def composed_noises(event: DpEvent) -> tuple[Noise, ...]:
    """Return the noise that a solver is given, and then each noise on what it returns.

    Guarantee: an event that charges another noise, or noise on a sample of the records, is refused.
    """
    parts = getattr(event, "events", None) or (event,)
    found: list[Noise] = []
    for part in parts:
        known = _ON_SOLUTIONS if found else _IN_SOLVERS
        if type(part).__name__ not in known:
            raise PrivacyRefusal(
                f"event: expected one of {', '.join(known)}, got {type(part).__name__}. Charge the "
                "noise that is drawn."
            )
        found.append(Noise(mechanism_of(part), noise_multiplier(part)))
    return tuple(found)


def mechanism_of(event: DpEvent) -> Mechanism:
    """Return the distribution of the noise, inside a sampler's event or not."""
    while getattr(event, "event", None) is not None:
        event = event.event
    others: dict[str, Mechanism] = {"LaplaceDpEvent": "laplace", "SphericalDpEvent": "spherical"}
    return others.get(type(event).__name__, "gaussian")
