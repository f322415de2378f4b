"""Truncated Poisson sampling: Poisson sampling with rare large batches cut to a stated size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from dppipe.component import AutoInt, Field
from dppipe.errors import PrivacyRefusal
from dppipe.privacy.proofs import SamplerProof
from dppipe.sampling.base import Sampler

if TYPE_CHECKING:
    import numpy
    from dp_accounting import DpEvent

    from dppipe.randomness.keystream import ByteSource


class TruncatedPoisson(Sampler, kind="truncated_poisson"):
    """Takes each record with one probability; a batch above `max_batch_size` is subsampled to it.

    Guarantees:
    - The event is the truncated release at the very numbers that `draw` uses (Ganesh 2025,
      arXiv 2508.15089): a record that is taken out lets another one in, and that is paid for.
    - It holds where the number of records is public.
    """

    proof: ClassVar[SamplerProof | None] = SamplerProof(
        event="TruncatedSubsampledGaussianDpEvent",
        relations=("zero_out", "replace_one"),
        why="the rare batch that is cut off is in the event",
        why_not=(
            "the bound on the cut-off depends on the number of records, which add_remove keeps "
            "secret"
        ),
    )

    expected_batch_size: float = Field(
        gt=0, description="Records in a batch on average; sums are divided by it."
    )
    max_batch_size: AutoInt = Field(
        "auto",
        gt=0,
        description="No batch has more records; "
        "`auto` is the expected size plus seven times its square root, nearly free.",
    )

    def rate(self, records: int | None) -> float:
        if records is None:
            raise PrivacyRefusal(
                "sampler: truncated sampling is charged by the number of records, "
                "which add_remove keeps secret"
            )
        return float(self.expected_batch_size) / records

    def expected(self, records: int | None) -> float:
        return float(self.expected_batch_size)

    def largest(self) -> int:
        """Return the size that no batch exceeds."""
        if self.max_batch_size != "auto":
            return int(self.max_batch_size)
        return math.ceil(self.expected_batch_size + 7 * math.sqrt(self.expected_batch_size))

    def event(self, mechanism: DpEvent, *, rate: float) -> DpEvent:
        import dp_accounting

        if not isinstance(mechanism, dp_accounting.GaussianDpEvent):
            raise PrivacyRefusal(
                "sampler: expected Gaussian noise with truncated_poisson, "
                f"got {type(mechanism).__name__}. "
                "No bound is known for another; take sampler: poisson."
            )
        records = round(self.expected_batch_size / rate)  # the rate was made from them
        return dp_accounting.TruncatedSubsampledGaussianDpEvent(
            dataset_size=records,
            sampling_probability=float(rate),
            truncated_batch_size=self.largest(),
            noise_multiplier=float(mechanism.noise_multiplier),
        )

    def draw(self, records: int, *, rate: float, generator: ByteSource) -> numpy.ndarray:
        from dppipe.randomness.draws import subset, successes

        drawn = successes(generator, records, rate=rate)
        if len(drawn) <= self.largest():
            return drawn
        return drawn[subset(generator, len(drawn), size=self.largest())]
