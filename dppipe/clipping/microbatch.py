"""Micro-batch clipping: gradients are averaged in small groups, and the averages are clipped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from dppipe.clipping.base import Clipper, State
from dppipe.component import Field

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from torch import Tensor

    from dppipe.privacy.budget import Relation


class Microbatch(Clipper, kind="microbatch"):
    """Clips the average of about `size` examples instead of each example's own gradient.

    Guarantees:
    - One record changes one average, which can then be anywhere within the bound: the sensitivity
      is twice the bound under every relation.
    - A record's slot is a hash of its own index, so no record moves another to a different average.
      That needs indices that stay when a record is removed, which add_remove doesn't have.
    """

    elementwise: ClassVar[bool] = True

    averages: ClassVar[bool] = True

    size: int = Field(
        4, gt=0, description="Examples that are averaged before they are clipped, on average."
    )

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [1], [1] -> [1]
        return (bounds / norms).clamp(max=1)

    def sensitivity(self, bounds: Sequence[float], relation: Relation) -> float:
        return 2 * math.hypot(*bounds)

    def slots(
        self, indices: NDArray[numpy.int64], *, expected_batch_size: float
    ) -> NDArray[numpy.int64]:
        import numpy

        count = max(1, round(expected_batch_size / self.size))
        # The finaliser of SplitMix64 (Steele, Lea and Flood 2014) puts neighbours in the data into
        # unrelated slots.
        mixed = indices.astype(numpy.uint64) + numpy.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return ((mixed ^ (mixed >> numpy.uint64(31))) % numpy.uint64(count)).astype(numpy.int64)

    def restore(self, state: State, gradient: dict[str, Tensor]) -> dict[str, Tensor]:
        # The sum has one term for `size` examples and was divided by the number of examples.
        return {name: value * self.size for name, value in gradient.items()}

    def refusal(self, relation: Relation) -> str | None:
        if relation != "add_remove":
            return None
        return (
            "expected a relation under which records keep their places, got 'add_remove': "
            "a record that is taken out moves all later ones to other averages. "
            "Take relation: zero_out, or another clipper"
        )
