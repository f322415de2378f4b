"""What samplers share whose every batch has one fixed size: its rate, and the records behind it."""

from __future__ import annotations

from typing import ClassVar

from dppipe.component import Field
from dppipe.sampling.base import Sampler, require_public


class FixedSize(Sampler):
    """Draws batches of one size out of a public number of records."""

    fixed_size: ClassVar[bool] = True

    expected_batch_size: int = Field(
        gt=0, description="Records in every batch; sums are divided by it."
    )

    def rate(self, records: int | None) -> float:
        why = "a batch of fixed size is charged by the number of records"
        return self.expected_batch_size / require_public(records, why)

    def expected(self, records: int | None) -> float:
        return float(self.expected_batch_size)

    def records_at(self, rate: float) -> int:
        """Return the number of records that `rate` was computed from."""
        return round(self.expected_batch_size / rate)
