"""What the gate reads from an event: how much noise to add, and of which distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dppipe.privacy.events.base import noise_multiplier

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["composed_multipliers", "mechanism_of", "noise_multiplier"]


def composed_multipliers(event: DpEvent) -> tuple[float, ...]:
    """Return the noise multiplier of each of several releases that are charged together."""
    parts = getattr(event, "events", None)
    return tuple(noise_multiplier(part) for part in parts) if parts else (noise_multiplier(event),)


def mechanism_of(event: DpEvent) -> Literal["gaussian", "laplace"]:
    """Return the distribution of the noise, inside a sampler's event or not."""
    while getattr(event, "event", None) is not None:
        event = event.event
    return "laplace" if type(event).__name__ == "LaplaceDpEvent" else "gaussian"
