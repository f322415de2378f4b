"""Sampling without replacement: each step draws a uniform subset of one fixed size."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.privacy.proofs import SamplerProof
from dppipe.sampling.fixed_size import FixedSize

if TYPE_CHECKING:
    import numpy
    from dp_accounting import DpEvent

    from dppipe.randomness.keystream import ByteSource


class WithoutReplacement(FixedSize, kind="without_replacement"):
    """Takes `expected_batch_size` different records; all such batches are equally likely.

    Guarantees:
    - The event is a release on a uniform subset of that size, drawn independently at every step.
    - It holds for one record replaced by another: the mechanism's multiplier is the noise over the
      norm of one record, and the accountant doubles the sensitivity.
    """

    proof: ClassVar[SamplerProof | None] = SamplerProof(
        event="SampledWithoutReplacementDpEvent",
        relations=("replace_one",),
        why="a batch is a uniform subset of fixed size",
        why_not="a batch of fixed size shows that a record was replaced, not that one is missing",
    )

    def event(self, mechanism: DpEvent, *, rate: float) -> DpEvent:
        import dp_accounting

        return dp_accounting.SampledWithoutReplacementDpEvent(
            self.records_at(rate), self.expected_batch_size, mechanism
        )

    def draw(self, records: int, *, rate: float, generator: ByteSource) -> numpy.ndarray:
        from dppipe.randomness.draws import subset

        return subset(generator, records, size=self.expected_batch_size)
