"""What a statement says of the noise itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.privacy.events.multipliers import mechanism_of

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan

DEFAULT_LEVEL = (
    "Noise comes from AES-256 in counter mode, keyed by the operating system's entropy. "
    "It is added in the precision of the gradients. "
    "Nothing is claimed against an attack on the low-order digits of floating-point numbers."
)
"""Gaussian noise without `noise.secure`."""

SECURE_LEVEL = (
    "Noise comes from AES-256 in counter mode, keyed by the operating system's entropy. "
    "Each value is half the sum of four float64 Gaussians (Holohan and Braghin 2021). "
    "Clipped sums and noise are rounded to a common grid, 2^36 points or more to a standard "
    "deviation, before they are added, so the low-order digits of a release carry nothing "
    "(Mironov 2012). "
    "The noise is raised by what the rounding can add to the sensitivity, for noise multipliers up "
    "to 1024. "
    "The clipped sums themselves are computed in floating point: their own rounding error is not "
    "covered."
)
"""Gaussian noise with `noise.secure`."""

LAPLACE_LEVEL = (
    "Noise is Laplace noise from AES-256 in counter mode, keyed by the operating system's entropy. "
    "It is added in the precision of the gradients. "
    "Nothing is claimed against an attack on the low-order digits of floating-point numbers "
    "(Mironov 2012)."
)
"""Laplace noise."""

SELECTION_LEVEL = (
    "Noise on scores comes from AES-256 in counter mode, keyed by the operating system's entropy. "
    "Only the number of the candidate with the largest noisy score is released, and what rounding "
    "can add to its cost is paid for."
)
"""Noise of a selection."""
_SELECTIONS = {"ExponentialMechanismDpEvent", "EpsilonDeltaDpEvent"}
"""The events by which the gate selects."""


def learner_noise(plan: Plan) -> str:
    """Return whose noise a learner without steps has: gaussian, laplace or selection."""
    if plan.releases and all(release.event["type"] in _SELECTIONS for release in plan.releases):
        return "selection"
    mechanisms = {mechanism_of(release.dp_event) for release in plan.releases}
    return "laplace" if mechanisms == {"laplace"} else "gaussian"


def noise_level(*, mechanism: str, secure: bool, steps: int = 1) -> str:
    """Return what protects the noise itself, in whole sentences; a run may have no steps."""
    level = SECURE_LEVEL if secure else DEFAULT_LEVEL
    if mechanism == "laplace":
        level = LAPLACE_LEVEL
    elif mechanism == "selection":
        level = SELECTION_LEVEL
    return level if steps else level.replace("the gradients", "what is released")
