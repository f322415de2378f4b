"""Poisson sampling: each record is in each step's batch with one probability, independently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import model_validator

from dppipe.component import Component, Field
from dppipe.errors import UsageError
from dppipe.optim.schedules.base import factors_of
from dppipe.privacy.proofs import EVERY_RELATION, SamplerProof
from dppipe.sampling.base import Sampler
from dppipe.spec.component_field import ComponentOf

if TYPE_CHECKING:
    import numpy
    from dp_accounting import DpEvent

    from dppipe.optim.schedules.base import LRSchedule
    from dppipe.randomness.keystream import ByteSource
else:
    LRSchedule = Annotated[Component, ComponentOf("schedule")]


class Poisson(Sampler, kind="poisson"):
    """Takes each record with probability `sample_rate`, independently at every step.

    Guarantee: the event is a Poisson-sampled release at the very rate that `draw` uses; empty
    batches are ordinary steps.
    """

    proof: ClassVar[SamplerProof | None] = SamplerProof(
        event="PoissonSampledDpEvent",
        relations=EVERY_RELATION,
        why="each record is in each batch independently, with one probability",
    )

    sample_rate: float | None = Field(
        None, gt=0, le=1, description="The chance of each record to be in a step's batch."
    )
    expected_batch_size: float | None = Field(
        None, gt=0, description="Records in a batch on average; sums are divided by it."
    )
    batch_schedule: LRSchedule | None = Field(
        None,
        description="A factor on both over the run; "
        "each step is charged at its own rate and divided by its own size.",
    )

    @model_validator(mode="after")
    def _something_is_given(self) -> Self:
        if self.sample_rate is None and self.expected_batch_size is None:
            raise ValueError(
                "expected one of sample_rate and expected_batch_size, got neither. "
                "Give one of them."
            )
        return self

    def rate(self, records: int | None) -> float:
        if self.sample_rate is not None:
            return float(self.sample_rate)
        if records is None or self.expected_batch_size is None:
            raise UsageError(
                "sampler: a sample rate needs the number of records "
                "where only the expected batch size is given"
            )
        return float(self.expected_batch_size) / records

    def expected(self, records: int | None) -> float:
        if self.expected_batch_size is not None:
            return float(self.expected_batch_size)
        if records is None or self.sample_rate is None:
            raise UsageError(
                "sampler: an expected batch size needs the number of records "
                "where only the sample rate is given"
            )
        return float(self.sample_rate) * records

    @property
    def scheduled(self) -> bool:
        return self.batch_schedule is not None and self.batch_schedule.moves

    def batch_factors(self, steps: int) -> list[float]:
        return factors_of(self.batch_schedule, steps=steps)

    def event(self, mechanism: DpEvent, *, rate: float) -> DpEvent:
        import dp_accounting

        if rate == 1:
            return mechanism
        return dp_accounting.PoissonSampledDpEvent(float(rate), mechanism)

    def draw(self, records: int, *, rate: float, generator: ByteSource) -> numpy.ndarray:
        from dppipe.randomness.draws import successes

        return successes(generator, records, rate=rate)
