"""What a sampler is: the object that draws a step's records and, from the same numbers, builds the step's privacy event.

There is no second place where a sample rate could be written: `rate` is what `draw` uses and what `event` charges.
Samplers claim proofs that the core can't check, so they stay in the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.component import AutoInt, Component, Field

if TYPE_CHECKING:
    import numpy
    from dp_accounting import DpEvent

    from dppipe.randomness.keystream import ByteSource


class Sampler(Component):
    """How the records of a step are drawn.

    Guarantee: `event` describes exactly the distribution of `draw`, for one step, under the relations that
    `dppipe.privacy.support` lists for this kind.
    """

    epochwise: ClassVar[bool] = False
    """Whether one charge covers a whole epoch instead of one step."""
    distinct: ClassVar[bool] = True
    """Whether a record is in a batch at most once."""

    physical_batch_size: AutoInt = Field(
        "auto", gt=0, description="Records that go through the model at once; it changes memory and speed, never the result."
    )

    def rate(self, records: int | None) -> float:
        """Give the sample rate: the chance of each record to be in a step's batch."""
        raise NotImplementedError

    def expected(self, records: int | None) -> float:
        """Give the expected batch size: the public constant by which noisy sums are divided."""
        raise NotImplementedError

    def event(self, mechanism: DpEvent, *, rate: float) -> DpEvent:
        """Wrap a mechanism's event in what the sampling does to it."""
        raise NotImplementedError

    def draw(self, records: int, *, rate: float, generator: ByteSource) -> numpy.ndarray:  # -> [batch] of int64
        """Draw the indices of one step's records, in any order; an empty draw is an ordinary step."""
        raise NotImplementedError
