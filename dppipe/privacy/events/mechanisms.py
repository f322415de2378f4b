"""The events of the mechanisms that a plugin learner's releases can use, by their one number each.

They are dp_accounting's, and load it when they are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.privacy.events.plain import event_from_data

if TYPE_CHECKING:
    from dp_accounting import DpEvent


def gaussian(noise_multiplier: float) -> DpEvent:
    """Return the event of a sum with Gaussian noise: its standard deviation over the bound."""
    return event_from_data({"type": "GaussianDpEvent", "noise_multiplier": float(noise_multiplier)})


def laplace(noise_multiplier: float) -> DpEvent:
    """Return the event of a sum with Laplace noise: its scale over the bound."""
    return event_from_data({"type": "LaplaceDpEvent", "noise_multiplier": float(noise_multiplier)})


def exponential(epsilon: float) -> DpEvent:
    """Return the event of a selection by the exponential mechanism."""
    return event_from_data({"type": "ExponentialMechanismDpEvent", "epsilon": float(epsilon)})


def permute_and_flip(epsilon: float) -> DpEvent:
    """Return the event of a selection by permute-and-flip: epsilon with delta 0, and no more."""
    return event_from_data({"type": "EpsilonDeltaDpEvent", "epsilon": float(epsilon), "delta": 0.0})


def spherical(noise_multiplier: float, *, log_determinant: float = 0.0) -> DpEvent:
    """Return the event of spherical noise: its scale over the bound, and what a solver adds."""
    return event_from_data(
        {
            "type": "SphericalDpEvent",
            "noise_multiplier": float(noise_multiplier),
            "log_determinant": float(log_determinant),
        }
    )
