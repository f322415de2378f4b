"""Shuffled epochs: all records in a fresh random order, cut into batches of one size."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.component import Field
from dppipe.errors import PrivacyRefusal
from dppipe.privacy.proofs import SamplerProof
from dppipe.sampling.base import Sampler

if TYPE_CHECKING:
    import numpy
    from dp_accounting import DpEvent

    from dppipe.randomness.keystream import ByteSource


class Shuffle(Sampler, kind="shuffle"):
    """Goes through all records in each epoch, in a fresh random order; the last batch is the rest.

    Guarantees:
    - A record is in one batch of an epoch, so an epoch costs what one release on all records does:
      mu = sqrt(E) / z after E epochs under zero_out, and twice that under replace_one.
    - Nothing is claimed for the random order: what is known of shuffling (Chua et al. 2024) is far
      above Poisson sampling and near this bound.
    - Sizes of batches are public, as the number of records is.
    """

    epochwise: ClassVar[bool] = True
    fixed_size: ClassVar[bool] = True
    proof: ClassVar[SamplerProof | None] = SamplerProof(
        event="",
        relations=("zero_out", "replace_one"),
        why=(
            "each record is used once an epoch, so an epoch costs one release; order gives no "
            "amplification"
        ),
        why_not=(
            "the number of steps in an epoch shows the number of records, which add_remove keeps "
            "secret"
        ),
        filters=False,
    )

    expected_batch_size: int = Field(
        gt=0, description="Records in every batch but the last; all sums are divided by it."
    )

    def rate(self, records: int | None) -> float:
        if records is None:
            raise PrivacyRefusal(
                "sampler: the length of a shuffled epoch shows the number of records, "
                "which add_remove keeps secret"
            )
        return self.expected_batch_size / records

    def expected(self, records: int | None) -> float:
        return float(self.expected_batch_size)

    def epoch_length(self, records: int | None) -> int:
        size = self.expected_batch_size
        return max(1, ((records or 0) + size - 1) // size)

    def event(self, mechanism: DpEvent, *, rate: float) -> DpEvent:
        return mechanism

    def draw_epoch(
        self, records: int, *, rate: float, generator: ByteSource
    ) -> list[numpy.ndarray]:
        from dppipe.randomness.draws import permutation

        order = permutation(generator, records)
        size = self.expected_batch_size
        return [order[start : start + size] for start in range(0, records, size)]
