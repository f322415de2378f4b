"""What a sampler is: the object that draws a step's records and, from the same numbers, builds the step's privacy event.

There is no second place where a sample rate could be written: `rate` is what `draw` uses and what `event` charges. Most draw
each step by itself; an epoch-wise one draws the batches of a whole epoch at once (`draw_epoch`), and is charged by the epoch.
Samplers claim proofs that the core can't check, so they stay in the package. Read next: `poisson.py`, then `shuffle.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.component import AutoInt, Component, Field

if TYPE_CHECKING:
    import numpy
    from dp_accounting import DpEvent

    from dppipe.privacy.budget import Unit
    from dppipe.randomness.keystream import ByteSource


class Sampler(Component):
    """How the records of a step are drawn.

    Guarantee: `event` describes exactly the distribution of `draw`, for one step, or of `draw_epoch`, for one epoch, under the
    relations that `dppipe.privacy.support` lists for this kind.
    """

    epochwise: ClassVar[bool] = False
    """Whether one charge covers a whole epoch instead of one step."""
    unit: ClassVar[Unit] = "example"
    """What is drawn: single records, or users with all their records. What is called a record below is one of these."""
    fixed_size: ClassVar[bool] = False
    """Whether every batch has the expected size, rather than that size on average."""

    physical_batch_size: AutoInt = Field(
        "auto",
        gt=0,
        description="Records that go through the model at once; it changes memory and speed, never the result. `auto` finds what "
        "fits on made-up records.",
    )

    @property
    def records_per_unit(self) -> int | None:
        """The most records of one user that a step uses; None where single records are drawn."""
        return None

    def rate(self, records: int | None) -> float:
        """Give the sample rate: the chance of each record to be in a step's batch."""
        raise NotImplementedError

    def expected(self, records: int | None) -> float:
        """Give the expected batch size: the public constant by which noisy sums are divided."""
        raise NotImplementedError

    def largest(self) -> int | None:
        """Give the size that no batch exceeds, where the sampler cuts them off at one."""
        return None

    def epoch_length(self, records: int | None) -> int:
        """Give the steps of an epoch: as many as it takes to draw each record once on average."""
        return max(1, round(1 / self.rate(records)))

    @property
    def scheduled(self) -> bool:
        """Whether the batch size moves over a run, which then has to know its last step."""
        return False

    def batch_factors(self, steps: int) -> list[float]:
        """Give the factor on the rate and the expected batch size at each of `steps` steps."""
        return [1.0] * steps

    def event(self, mechanism: DpEvent, *, rate: float) -> DpEvent:
        """Wrap a mechanism's event in what the sampling does to it: in a step, or in an epoch."""
        raise NotImplementedError

    def draw(
        self, records: int, *, rate: float, generator: ByteSource
    ) -> numpy.ndarray:  # -> [batch] of int64
        """Draw the indices of one step's records, in any order; an empty draw is an ordinary step."""
        return self.draw_epoch(records, rate=rate, generator=generator)[0]

    def draw_epoch(
        self, records: int, *, rate: float, generator: ByteSource
    ) -> list[numpy.ndarray]:
        """Draw the batches of all steps of an epoch; only for a sampler with `epochwise = True`."""
        raise NotImplementedError
