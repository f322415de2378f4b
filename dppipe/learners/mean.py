"""Mean: the average of the records, each clipped to a public bound, with noise (one release).

The smallest learner of the package: an example of how to write one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from dppipe.component import AutoFloat, Field
from dppipe.learners.base import Learner, PublicFacts, Release
from dppipe.privacy.events.mechanisms import gaussian, laplace

if TYPE_CHECKING:
    from torch import Tensor, nn

    from dppipe.learners.gate import Gate
    from dppipe.learners.gating.bounded import Bounded
    from dppipe.learners.job import Job
    from dppipe.learners.records.training_records import Unit


class Mean(Learner, kind="mean"):
    """Adds up clipped inputs, adds noise, and divides by a public constant.

    Guarantee: one unit's presence moves the sum by at most `max_norm (1 + 2^-22)`, under every
    relation and for both units; a replaced unit moves it twice, which is how accountants charge it.
    A unit adds one vector, a function of its own records alone, which is clipped to `max_norm`:
    in the Euclidean norm for Gaussian noise (Dwork et al. 2006a), in the sum of absolute values for
    Laplace noise (Dwork et al. 2006b). The 2^-22 pays for rounding, for up to a million numbers
    in an input and 2^29 units (`gating/unit_sums.py`). The divisor is public, so dividing costs
    nothing.
    """

    max_norm: float = Field(
        1.0,
        ge=1e-6,
        le=1e6,
        description="Longer inputs are shortened to this norm: L2 for gaussian, L1 for laplace.",
    )
    mechanism: Literal["gaussian", "laplace"] = Field(
        "gaussian", description="The noise; laplace is private with delta 0."
    )
    noise_multiplier: AutoFloat = Field(
        "auto", gt=0, description="The noise relative to max_norm; auto: by the budget."
    )
    expected_records: float | None = Field(
        None,
        gt=0,
        description="What the sum is divided by under add_remove, where the number of records (or "
        "of users) is secret: a public guess of it.",
    )

    def problems(self, facts: PublicFacts) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield a divisor that is missing, or that is stated beside a public number of records."""
        place = ("learner", "expected_records")
        if facts.records is None and self.expected_records is None:
            yield (
                place,
                "expected a number to divide the sum by, got nothing. Under add_remove the number "
                "of records is secret: state a public guess of it, or take relation: zero_out.",
            )
        elif facts.records is not None and self.expected_records is not None:
            yield (
                place,
                f"expected nothing, got {self.expected_records:g}. The number of records is "
                "public, and the sum is divided by it: remove it.",
            )

    def releases(self, facts: PublicFacts, *, scale: float) -> Sequence[Release]:
        """Return the one release: the mean."""
        event = gaussian(scale) if self.mechanism == "gaussian" else laplace(scale)
        return [
            Release(
                what="mean",
                event=event,
                facts={
                    "noise_multiplier": scale,
                    "mechanism": self.mechanism,
                    "max_norm": self.max_norm,
                    "divisor": self.divisor(facts),
                },
            )
        ]

    def divisor(self, facts: PublicFacts) -> float:
        """Return what the sum is divided by: the number of units, or a public guess of it."""
        return float(facts.records or self.expected_records or 1)

    def module(self, facts: PublicFacts) -> nn.Module:
        """Return a module whose one buffer is the mean; it makes no predictions."""
        import torch
        from torch import nn

        module = nn.Module()
        module.register_buffer("mean", torch.zeros(facts.input_shape, dtype=torch.float64))
        return module

    def fit(self, job: Job, gate: Gate) -> nn.Module:
        """Set the buffer to the noisy mean."""
        from dppipe.learners.gating.bounded import Bounded
        from dppipe.learners.gating.unit_sums import SUM_SLACK, clipped_unit_sum

        def total() -> Bounded:
            found = clipped_unit_sum(
                job.records.units(),
                unit_mean,
                shape=(math.prod(job.facts.input_shape),),
                bound=self.max_norm,
                order=1 if self.mechanism == "laplace" else 2,
            )
            sensitivity = self.max_norm * (1 + SUM_SLACK)
            return Bounded(found, sensitivity, over=self.divisor(job.facts))

        release = gate.next()
        if release is not None:
            noisy = gate.add_noise(release, total)
            job.module.load_state_dict({"mean": noisy.reshape(job.facts.input_shape)})
        return job.module


def unit_mean(unit: Unit) -> Tensor:  # -> [numbers of an input]
    """Return the average of a unit's finite records; NaN without any, which counts as zero."""
    inputs = unit.inputs.double().flatten(1)
    finite: Tensor = inputs[inputs.isfinite().all(1)].mean(0)
    return finite
