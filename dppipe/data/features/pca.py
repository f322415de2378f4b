"""Private principal components: inputs are projected on directions that are released with noise.

This file plans the release; `dppipe/learners/inputs/projection.py` computes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from dppipe.component import Field
from dppipe.data.features.base import FeatureMap
from dppipe.privacy.release import Release

if TYPE_CHECKING:
    from dppipe.privacy.budget import Budget

MOST_NUMBERS = 4096
"""How many numbers an input may have: their matrix of products must fit into memory."""
SLACK = 2.0**-22
"""What rounding may add to the sensitivity, relatively (`learners/inputs/second_moments.py`)."""


class PrivatePca(FeatureMap):
    """What `features: {kind: pca}` takes: a projection on noisy principal components.

    Analyze Gauss (Dwork, Talwar, Thakurta and Zhang 2014): the sum of x x' over all records gets
    Gaussian noise, and its eigenvectors are computed from the noisy matrix alone.

    Guarantees:
    - One unit moves the released sum by at most X^2 in the Frobenius norm, where X is `max_norm`:
      |x x'| = |x|^2, and x is clipped to X. A user's matrices are averaged over the user's usable
      records, and an average is no longer than the longest of them. Off-diagonal entries are
      released once, times sqrt 2, so that the vector's norm is the matrix's. Under `replace_one`
      two such matrices A, B are exchanged: |A - B|^2 = |A|^2 + |B|^2 - 2 <A, B> <= 2 X^4, as
      positive semidefinite matrices have <A, B> >= 0. That is below the 2 X^2 that accountants
      charge for.
    - The event is that of Gaussian noise with this multiplier. All else is post-processing.
    - Nothing is divided by the number of records, so it may be secret.
    """

    kind: Literal["pca"] = "pca"
    components: int = Field(
        ge=1, examples=[20], description="How many numbers of an input are left."
    )
    max_norm: float = Field(
        gt=0,
        examples=[1.0],
        description="Longer inputs are shortened to this in the noisy matrix: a public constant.",
    )
    noise_multiplier: float | None = Field(
        None,
        gt=0,
        description="Noise on the matrix, over max_norm squared; or leave it to `budget_share`.",
    )
    budget_share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="In place of a multiplier: the share of the budget's epsilon that the matrix "
        "alone would cost, at the budget's delta.",
    )

    @model_validator(mode="after")
    def _one_noise(self) -> Self:
        if (self.noise_multiplier is None) == (self.budget_share is None):
            got = "neither" if self.noise_multiplier is None else "both"
            raise ValueError(
                f"expected one of noise_multiplier and budget_share, got {got}. State one."
            )
        return self

    def problems(self, input_shape: Sequence[int]) -> Iterator[tuple[str, str]]:
        size = math.prod(input_shape)
        if size > MOST_NUMBERS:
            yield (
                "kind",
                f"expected inputs of at most {MOST_NUMBERS} numbers for pca, got {size}. Take "
                "other features.",
            )
        elif self.components > size:
            yield (
                "components",
                f"expected at most {size}, the numbers of an input, got {self.components}. Lower "
                "it.",
            )

    def output_shape(self, input_shape: Sequence[int]) -> tuple[int, ...]:
        return (self.components,)

    @property
    def place(self) -> str:
        """The option that asks for the release."""
        return "data.features"

    @property
    def needs_count(self) -> bool:
        """Whether the number of records has to be public: nothing is divided by it."""
        return False

    @property
    def instead(self) -> str:
        """What can be done where this can't be released."""
        return "Leave features out"

    @property
    def sensitivity(self) -> float:
        """How far one unit moves the released vector."""
        return self.max_norm**2 * (1 + SLACK)

    def release(self, budget: Budget | None = None) -> Release:
        """Return the release of the matrix, with its privacy event."""
        import dp_accounting

        multiplier = self._multiplier(budget)
        return Release(
            what="projection",
            event=dp_accounting.GaussianDpEvent(multiplier),
            facts={
                "components": self.components,
                "max_norm": self.max_norm,
                "noise_multiplier": multiplier,
            },
            place=self.place,
        )

    def _multiplier(self, budget: Budget | None) -> float:
        """Return the noise multiplier that is set, or the one of a share of the budget."""
        from dppipe.privacy.gaussian import gaussian_scale

        if self.noise_multiplier is not None:
            return float(self.noise_multiplier)
        if budget is None or self.budget_share is None:
            return 1.0  # nothing is noised
        alone = gaussian_scale(self.budget_share * budget.epsilon, budget.delta)
        return 2 * alone if budget.relation == "replace_one" else alone
