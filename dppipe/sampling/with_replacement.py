"""Sampling with replacement: a fixed number of independent picks, so that a record can be in a batch several times."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.component import Field
from dppipe.errors import PrivacyRefusal
from dppipe.sampling.base import Sampler

if TYPE_CHECKING:
    import numpy
    from dp_accounting import DpEvent

    from dppipe.randomness.keystream import ByteSource


class WithReplacement(Sampler, kind="with_replacement"):
    """Picks a record uniformly, `expected_batch_size` times over, independently at every step.

    Guarantee: the event is a release on that many independent picks, of which any number may be the same record: each copy
    is clipped and summed on its own, and the accountant bounds every number of copies (Balle, Barthe and Gaboardi 2018). It
    holds for one record replaced by another. The rate is the number of copies of a record in a batch, on average.
    """

    fixed_size: ClassVar[bool] = True

    expected_batch_size: int = Field(
        gt=0, description="Picks in every batch; sums are divided by it."
    )

    def rate(self, records: int | None) -> float:
        if records is None:
            raise PrivacyRefusal(
                "sampler: a batch of fixed size is charged by the number of records, which add_remove keeps secret"
            )
        return self.expected_batch_size / records

    def expected(self, records: int | None) -> float:
        return float(self.expected_batch_size)

    def event(self, mechanism: DpEvent, *, rate: float) -> DpEvent:
        import dp_accounting

        records = round(self.expected_batch_size / rate)  # the rate was made from them
        return dp_accounting.SampledWithReplacementDpEvent(
            records, self.expected_batch_size, mechanism
        )

    def draw(self, records: int, *, rate: float, generator: ByteSource) -> numpy.ndarray:
        from dppipe.randomness.draws import integers

        return integers(generator, records, size=self.expected_batch_size)
