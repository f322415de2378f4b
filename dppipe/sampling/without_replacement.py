"""Sampling without replacement: every batch is a uniform subset of one fixed size, fresh at each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.component import Field
from dppipe.errors import PrivacyRefusal
from dppipe.sampling.base import Sampler

if TYPE_CHECKING:
    import numpy
    from dp_accounting import DpEvent

    from dppipe.randomness.keystream import ByteSource


class WithoutReplacement(Sampler, kind="without_replacement"):
    """Takes `expected_batch_size` different records, every such batch being equally likely, independently at every step.

    Guarantee: the event is a release on a uniform subset of that size. It holds for one record replaced by another: the
    mechanism's multiplier is the noise over the norm of one record, and the accountant doubles the sensitivity.
    """

    fixed_size: ClassVar[bool] = True

    expected_batch_size: int = Field(
        gt=0, description="Records in every batch; sums are divided by it."
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
        return dp_accounting.SampledWithoutReplacementDpEvent(
            records, self.expected_batch_size, mechanism
        )

    def draw(self, records: int, *, rate: float, generator: ByteSource) -> numpy.ndarray:
        from dppipe.randomness.draws import subset

        return subset(generator, records, size=self.expected_batch_size)
