"""Balls in bins: each record is assigned to a random batch of each epoch (Chua et al. 2024)."""

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


class BallsInBins(Sampler, kind="balls_in_bins"):
    """Puts each record into one batch of an epoch, chosen uniformly, independently of others.

    Guarantee: the event is an epoch of that many batches (`dppipe.privacy.events.balls_in_bins`).
    Unlike in a shuffled epoch, the batches of the other records say nothing about this record's, so
    the random assignment amplifies privacy; rdp certifies it in both directions.
    """

    epochwise: ClassVar[bool] = True
    proof: ClassVar[SamplerProof | None] = SamplerProof(
        event="BallsInBinsDpEvent",
        relations=("zero_out",),
        why="each record falls in one random batch of an epoch",
        why_not="its bound is proven for a record whose gradient becomes zero",
        filters=False,
    )

    expected_batch_size: float = Field(
        gt=0,
        description="Records in a batch on average; "
        "it is changed a little so that an epoch has a whole number of batches.",
    )

    def epoch_length(self, records: int | None) -> int:
        if records is None:
            raise PrivacyRefusal(
                "sampler: the number of batches in an epoch shows that of the records, "
                "which add_remove keeps secret"
            )
        return max(1, round(records / self.expected_batch_size))

    def rate(self, records: int | None) -> float:
        return 1 / self.epoch_length(records)

    def expected(self, records: int | None) -> float:
        return (records or 0) / self.epoch_length(records)

    def event(self, mechanism: DpEvent, *, rate: float) -> DpEvent:
        from dppipe.privacy.events.balls_in_bins import event_class

        event: DpEvent = event_class()(round(1 / rate), mechanism)
        return event

    def draw_epoch(
        self, records: int, *, rate: float, generator: ByteSource
    ) -> list[numpy.ndarray]:
        import numpy

        from dppipe.randomness.draws import integers

        bins = round(1 / rate)
        chosen = integers(generator, bins, size=records)
        ends = numpy.cumsum(numpy.bincount(chosen, minlength=bins))[:-1]
        return numpy.split(numpy.argsort(chosen, kind="stable"), ends)
