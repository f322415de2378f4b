"""Full batch: every record in every step (DP gradient descent)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.proofs import EVERY_RELATION, SamplerProof
from dppipe.sampling.base import Sampler

if TYPE_CHECKING:
    import numpy
    from dp_accounting import DpEvent

    from dppipe.randomness.keystream import ByteSource


class FullBatch(Sampler, kind="full_batch"):
    """Takes every record at every step.

    Guarantee: no amplification is claimed; the event is the mechanism's own.
    """

    fixed_size: ClassVar[bool] = True
    proof: ClassVar[SamplerProof | None] = SamplerProof(
        event="",
        relations=EVERY_RELATION,
        why="every record is in every step, so nothing is assumed of the sampling",
    )

    @property
    def separation(self) -> int:
        return 1

    def rate(self, records: int | None) -> float:
        return 1.0

    def expected(self, records: int | None) -> float:
        if records is None:
            raise PrivacyRefusal(
                "sampler: a full batch is divided by the number of records, "
                "which add_remove keeps secret"
            )
        return float(records)

    def event(self, mechanism: DpEvent, *, rate: float) -> DpEvent:
        return mechanism

    def draw(self, records: int, *, rate: float, generator: ByteSource) -> numpy.ndarray:
        import numpy

        return numpy.arange(records)
