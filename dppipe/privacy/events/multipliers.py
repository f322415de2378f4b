"""What the gate reads from an event: how much noise to add, and of which distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal

if TYPE_CHECKING:
    from dp_accounting import DpEvent


def noise_multiplier(event: DpEvent) -> float:
    """Return the noise multiplier that an event charges, inside a sampler's event or not."""
    found = getattr(_mechanism(event), "noise_multiplier", None)
    if found is None:
        raise PrivacyRefusal(
            f"event: expected one with a noise multiplier, got {type(event).__name__}. "
            "No noise can be added for it."
        )
    return float(found)


def composed_multipliers(event: DpEvent) -> tuple[float, ...]:
    """Return the noise multiplier of each of several Gaussians that are charged together.

    Guarantee: an event that charges another noise, or noise on a sample of the records, is refused.
    """
    parts = getattr(event, "events", None) or (event,)
    for part in parts:
        if type(part).__name__ != "GaussianDpEvent":
            raise PrivacyRefusal(
                f"event: expected a GaussianDpEvent, or several composed, got "
                f"{type(part).__name__}. Charge the noise that is drawn."
            )
    return tuple(noise_multiplier(part) for part in parts)


def mechanism_of(event: DpEvent) -> str:
    """Return the distribution of the noise: gaussian or laplace."""
    name = type(_mechanism(event)).__name__
    return "laplace" if name == "LaplaceDpEvent" else "gaussian"


def _mechanism(event: DpEvent) -> DpEvent:
    while getattr(event, "event", None) is not None:
        event = event.event
    return event
