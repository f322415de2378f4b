"""Drawing canaries along with real units: one call of the sampler, at the run's rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal

if TYPE_CHECKING:
    from dppipe.sampling.base import Sampler

_SAME_RATE = ("poisson", "user", "full_batch", "balls_in_bins")
"""Samplers that draw each unit at a rate, however many units there are."""
_BY_SIZE = ("shuffle", "without_replacement")
"""Samplers that draw batches of a size: the size grows with the units."""


def sampler_with_canaries(sampler: Sampler, *, units: int, canaries: int) -> Sampler:
    """Return the sampler that draws from real units and canaries together, at the run's rate.

    Guarantees:
    - A canary is drawn as a real unit is, by the same call, with at most the chance that is
      charged. `without_replacement` takes floor(b (n + m) / n) units, so a rate of b / n at most.
    - In a shuffled epoch every unit is used once at most: a batch has ceil(b (n + m) / n) units, so
      that an epoch has no more batches than the plan's.
    - Samplers whose cost depends on the number of units in another way are refused.
    """
    if sampler.kind in _SAME_RATE:
        return sampler
    if sampler.kind not in _BY_SIZE:
        known = ", ".join((*_SAME_RATE, *_BY_SIZE))
        raise PrivacyRefusal(
            f"sampler: expected one of {known} in an audit of one run, got {sampler.kind!r}. What "
            "it charges holds for the real number of records, and canaries change that number."
        )
    size = int(sampler.expected(units))
    larger = size * (units + canaries)
    rounded = -(-larger // units) if sampler.kind == "shuffle" else larger // units
    return sampler.model_copy(update={"expected_batch_size": rounded})
