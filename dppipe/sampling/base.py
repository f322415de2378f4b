"""What a sampler is: it draws a step's records and builds the step's privacy event.

Both use the same numbers: `rate` is what `draw` uses and what `event` charges, so there is no
second place where a sample rate could be written. Most samplers draw each step on its own; an
epoch-wise one draws all batches of an epoch at once (`draw_epoch`) and is charged by the epoch.
Samplers claim proofs that the core can't check, so they come with the package only.
Read next: `poisson.py`, then `shuffle.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.component import AutoInt, Component, Field
from dppipe.privacy.proofs import SamplerProof

if TYPE_CHECKING:
    import numpy
    from dp_accounting import DpEvent

    from dppipe.privacy.budget import Unit
    from dppipe.randomness.keystream import ByteSource


class Sampler(Component):
    """How the records of a step are drawn.

    Guarantee: `event` describes exactly the distribution of `draw`, for one step, or of
    `draw_epoch`, for one epoch, under the relations that `proof` declares. Which accountants bound
    the event, and under which relations, stands in the event's own file (`dppipe.privacy.events`).
    """

    epochwise: ClassVar[bool] = False
    """Whether one charge covers a whole epoch instead of one step."""
    unit: ClassVar[Unit] = "example"
    """What is drawn: records, or users with all their records. Below, a record is one unit."""
    proof: ClassVar[SamplerProof | None] = None
    """The event that is made, the relations under which it is right, and why."""
    fixed_size: ClassVar[bool] = False
    """Whether every batch has the expected size, and not only on average."""

    physical_batch_size: AutoInt = Field(
        "auto",
        gt=0,
        description="Records that go through the model at once; it changes memory and speed, "
        "never the result. `auto` finds what fits on made-up records.",
    )

    @property
    def records_per_unit(self) -> int | None:
        """The most records of one user that a step uses; None where single records are drawn."""
        return None

    def rate(self, records: int | None) -> float:
        """Return the sample rate: the probability of each record to be in a step's batch."""
        raise NotImplementedError

    def expected(self, records: int | None) -> float:
        """Return the expected batch size: the public constant by which noisy sums are divided."""
        raise NotImplementedError

    def largest(self) -> int | None:
        """Return the size that no batch exceeds; None where the sampler doesn't limit it."""
        return None

    def epoch_length(self, records: int | None) -> int:
        """Return the steps of an epoch: as many as it takes to draw each record once on average."""
        return max(1, round(1 / self.rate(records)))

    @property
    def separation(self) -> int | None:
        """How many steps lie between two uses of a unit at least: 1 if every step may use it.

        None where each step draws anew, so that nothing is known of the steps in between.
        Correlated noise needs a sampler with a separation.
        """
        return None

    @property
    def scheduled(self) -> bool:
        """Whether the batch size changes over a run, so that the number of steps must be known."""
        return False

    def batch_factors(self, steps: int) -> list[float]:
        """Return the factor on the rate and the expected batch size at each of `steps` steps."""
        return [1.0] * steps

    def event(self, mechanism: DpEvent, *, rate: float) -> DpEvent:
        """Return the event of the mechanism on a sampled batch: of a step, or of an epoch."""
        raise NotImplementedError

    # [batch] of int64
    def draw(self, records: int, *, rate: float, generator: ByteSource) -> numpy.ndarray:
        """Draw the indices of a step's records, in any order; an empty draw is an ordinary step."""
        return self.draw_epoch(records, rate=rate, generator=generator)[0]

    def draw_epoch(
        self, records: int, *, rate: float, generator: ByteSource
    ) -> list[numpy.ndarray]:
        """Draw the batches of all steps of an epoch; only for a sampler with `epochwise = True`."""
        raise NotImplementedError
