"""What the gate reads from an event: how much noise to add, and of which distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.events.base import noise_multiplier

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["composed_multipliers", "mechanism_of", "noise_multiplier"]


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


def mechanism_of(event: DpEvent) -> Literal["gaussian", "laplace"]:
    """Return the distribution of the noise, inside a sampler's event or not."""
    while getattr(event, "event", None) is not None:
        event = event.event
    return "laplace" if type(event).__name__ == "LaplaceDpEvent" else "gaussian"
