"""Sampling with replacement: a fixed number of independent picks, so a record can be repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.component import Field
from dppipe.privacy.proofs import SamplerProof
from dppipe.sampling.fixed_size import FixedSize

if TYPE_CHECKING:
    import numpy
    from dp_accounting import DpEvent

    from dppipe.randomness.keystream import ByteSource


class WithReplacement(FixedSize, kind="with_replacement"):
    """Picks a record uniformly, `expected_batch_size` times over, independently at every step.

    Guarantees:
    - The event is a release on that many independent picks, any number of which may be the same
      record. Each copy is clipped and summed on its own, and the accountant bounds every number of
      copies (Balle, Barthe and Gaboardi 2018).
    - It holds for one record replaced by another.

    The rate is the number of copies of a record in a batch, on average.
    """

    proof: ClassVar[SamplerProof | None] = SamplerProof(
        event="SampledWithReplacementDpEvent",
        relations=("replace_one",),
        why="one step has a theorem (Balle, Barthe and Gaboardi 2018), which adds up loosely",
        why_not="a batch of fixed size shows that a record was replaced, not that one is missing",
    )

    expected_batch_size: int = Field(
        gt=0, description="Picks in every batch; sums are divided by it."
    )

    def event(self, mechanism: DpEvent, *, rate: float) -> DpEvent:
        import dp_accounting

        return dp_accounting.SampledWithReplacementDpEvent(
            self.records_at(rate), self.expected_batch_size, mechanism
        )

    def draw(self, records: int, *, rate: float, generator: ByteSource) -> numpy.ndarray:
        from dppipe.randomness.draws import integers

        return integers(generator, records, size=self.expected_batch_size)
