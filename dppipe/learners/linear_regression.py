"""Linear regression from noisy sums of products (one release).

Regression, and ridge classification: the targets of classes are numbers. Vu and Slavkovic 2009 and
Foulds et al. 2016 release such sums; Wang 2018 chooses the ridge by a noisy eigenvalue (AdaSSP).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from dppipe.component import AutoFloat, Field
from dppipe.errors import PrivacyRefusal
from dppipe.learners.base import PublicFacts, Release
from dppipe.learners.linear.base import LinearLearner

if TYPE_CHECKING:
    from torch import Tensor, nn

    from dppipe.learners.gate import Gate
    from dppipe.learners.job import Job
    from dppipe.learners.linear.rows import Features
    from dppipe.learners.regression.moments import Moments

_ROUNDING = 2.0**-20
_MOST_RECORDS = 2**30


class LinearRegression(LinearLearner, kind="linear_regression"):
    """Adds noise to X'X and X'Y at once, and solves for the weights.

    Guarantee: one unit's presence moves what is released by at most `sqrt(X^4 + w^2 X^2 Y^2)`, and
    with `adassp` by at most `sqrt(2 X^4 + w^2 X^2 Y^2)`, for every relation, unit and task. The
    weight w = X/Y is a public constant that gives both sums as much noise.

    1. What is released is the sum over units of v, which stacks the diagonal of `x x'`, its upper
       triangle times sqrt(2), and `w x y'`. The first two have the norm |x|^2 <= X^2, since the
       squares of all d^2 numbers of `x x'` add up to |x|^4; the third has the norm
       w |x| |y| <= w X Y.
    2. The weights of a user's rows sum to at most 1. So its sum is a convex combination of such v
       and of 0, and no longer than the longest. A replaced unit moves the sum by at most twice
       that, which is how accountants charge it.
    3. `adassp` stacks the smallest eigenvalue of X'X too, which one unit moves by at most X^2: this
       is one Gaussian release in place of three whose multipliers z_i have
       1/z^2 = sum of 1/z_i^2.
    4. Rounding: sums are exact until they are rounded, three times at most (`moments.py`, and
       sqrt(2)), each time by 2^-53 of themselves. Their norm is at most n times the bound. So for
       up to 2^30 units, two datasets are off by at most 6 2^-23 of the bound together; rows and
       targets meet their bounds up to 2^-48. Together that is less than 2^-20.

    Everything after the release is computed from it and from public constants.
    """

    method: Literal["joint", "adassp"] = Field(
        "joint",
        description="`adassp` also releases the smallest eigenvalue, and chooses the ridge by it.",
    )
    target_bound: float | None = Field(
        None,
        ge=1e-6,
        le=1e6,
        description="The bound on the norm of each record's target; a public constant. Classes "
        "have one of their own.",
        examples=[1.0],
    )
    ridge: AutoFloat = Field(
        "auto", gt=0, description="What is added to the diagonal of X'X; auto: from the noise."
    )

    def problems(self, facts: PublicFacts) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield a bound on targets that is missing, or that classes don't have."""
        if facts.task == "regression" and self.target_bound is None:
            yield (
                ("learner", "target_bound"),
                "expected a bound on the targets of a regression, got nothing. State one that is "
                "known without a look at the records: longer targets are shortened to it.",
            )
        elif facts.task != "regression" and self.target_bound is not None:
            yield (
                ("learner", "target_bound"),
                f"expected nothing for a {facts.task} task, whose targets have one length, got "
                f"{self.target_bound:g}. Remove it.",
            )

    def bound_of_targets(self, facts: PublicFacts) -> float:
        """Return the bound Y on the norm of a record's target."""
        if facts.task == "binary":
            return 1.0
        if facts.task == "multiclass":
            return math.sqrt(1 - 1 / facts.outputs)
        return self.target_bound or 1.0

    def sensitivity(self, facts: PublicFacts) -> float:
        """Return how far one unit's presence moves what is released."""
        bound = self.bound_of_targets(facts)
        weight = self.max_norm / bound
        squares = self.max_norm**4
        if self.method == "adassp":
            squares += self.max_norm**4
        products = (weight * self.max_norm * bound) ** 2
        return math.sqrt(squares + products) * (1 + _ROUNDING)

    def releases(self, facts: PublicFacts, *, scale: float) -> Sequence[Release]:
        """Return the one release: the sums."""
        from dppipe.privacy.events.mechanisms import gaussian

        return [
            Release(
                what="moments",
                event=gaussian(scale),
                facts={
                    "noise_multiplier": scale,
                    "method": self.method,
                    "max_norm": self.max_norm,
                    "target_bound": self.bound_of_targets(facts),
                    "ridge": self.ridge,
                    "sensitivity": self.sensitivity(facts),
                },
            )
        ]

    def fit(self, job: Job, gate: Gate) -> nn.Module:
        """Set the layer to the solution of the noisy sums."""
        from dppipe.learners.gating.bounded import Bounded
        from dppipe.learners.linear.last_layer import bounded_layer
        from dppipe.learners.regression.moments import stack, unstack
        from dppipe.privacy.events.multipliers import noise_multiplier

        features = self.features(job)
        layer = bounded_layer(job.module)
        release = gate.next()
        if release is None:
            return job.module

        def sums() -> Bounded:
            return Bounded(stack(self.moments(job, features)), self.sensitivity(job.facts))

        noisy = gate.add_noise(release, sums)
        noise_std = 0.0
        if job.facts.epsilon is not None:
            noise_std = noise_multiplier(release.event) * self.sensitivity(job.facts)
        found = unstack(noisy, width=layer.row_width, outputs=job.facts.outputs)
        layer.set_solution(self.solve(found, job.facts, noise_std=noise_std))
        return job.module

    def moments(self, job: Job, features: Features | None) -> Moments:
        """Return what is released, without noise; call this inside a gate's computation."""
        from dppipe.learners.regression.moments import sum_moments, with_smallest
        from dppipe.learners.regression.targets import bounded_targets

        rows = self.rows(job, features)
        if float(rows.weights.sum()) > _MOST_RECORDS:
            raise PrivacyRefusal(
                f"data: expected at most {_MOST_RECORDS:,} records, for which rounding is covered, "
                "got more. Take fewer."
            )
        bound = self.bound_of_targets(job.facts)
        targets = bounded_targets(rows.targets, job.facts, bound=bound)
        found = sum_moments(rows, targets, max_norm=self.max_norm, target_bound=bound)
        return with_smallest(found) if self.method == "adassp" else found

    def solve(self, moments: Moments, facts: PublicFacts, *, noise_std: float) -> Tensor:
        """Return the weights `[outputs, d]` that follow from sums with noise.

        Args:
            moments: The sums.
            facts: The task, which says how long targets are.
            noise_std: The noise's standard deviation on the diagonal of X'X; 0 without noise.
        """
        from dppipe.learners.regression.ridge import adaptive_ridge, joint_ridge, solve_ridge

        if self.ridge != "auto":
            ridge = self.ridge
        elif self.method == "adassp":
            ridge = adaptive_ridge(moments, noise_std)
        else:
            ridge = joint_ridge(moments.squares.shape[0], noise_std)
        unit = self.bound_of_targets(facts) / self.max_norm
        return solve_ridge(moments, ridge=ridge, noise_std=noise_std) * unit
