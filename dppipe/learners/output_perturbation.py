"""Output perturbation: noise on the minimiser of a regularised sum of losses (one release).

Chaudhuri, Monteleoni and Sarwate 2011. It is simple and covers users and replaced records;
`objective_perturbation` needs less noise where it applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppipe.component import Field
from dppipe.learners.base import PublicFacts, Release
from dppipe.learners.perturbation.base import PerturbedLearner

if TYPE_CHECKING:
    from torch import nn

    from dppipe.learners.gate import Gate
    from dppipe.learners.gating.bounded import Bounded
    from dppipe.learners.job import Job


class OutputPerturbation(PerturbedLearner, kind="output_perturbation"):
    """Minimises, and adds noise to the solution.

    Guarantee: one unit's presence moves the solution by at most (L + 2 tau)/lambda. The objective
    is lambda-strongly convex. At the minimiser without the unit, the gradient with it is the unit's
    own, at most L since its records' weights sum to at most 1; so the two minimisers are at most
    L/lambda apart, and each solution is within tau/lambda of its minimiser. A replaced unit moves
    it by at most twice that, which is how accountants charge it.
    """

    regularization: float = Field(
        gt=0,
        examples=[1.0],
        description="Lambda, over the sum of losses: more of it needs less noise.",
    )

    def releases(self, facts: PublicFacts, *, scale: float) -> Sequence[Release]:
        """Return the one release: the weights."""
        from dppipe.privacy.events.mechanisms import gaussian, spherical

        event = spherical(scale) if self.mechanism == "pure" else gaussian(scale)
        return [
            Release(
                what="weights",
                event=event,
                facts={
                    "noise_multiplier": scale,
                    "loss": self.constants(facts).loss,
                    "max_norm": self.max_norm,
                    "regularization": self.regularization,
                    "sensitivity": self.sensitivity(facts),
                },
            )
        ]

    def sensitivity(self, facts: PublicFacts) -> float:
        """Return how far one unit's presence moves the solution."""
        tolerance = self.tolerance_for(facts, self.regularization, noise=0.0)
        bound = self.constants(facts).gradient_bound
        return (bound + 2 * tolerance) / self.regularization * (1 + 2.0**-40)

    def fit(self, job: Job, gate: Gate) -> nn.Module:
        """Set the layer to the minimiser with noise."""
        import torch

        from dppipe.learners.gating.bounded import Bounded
        from dppipe.learners.linear.last_layer import bounded_layer

        features = self.features(job)
        layer = bounded_layer(job.module)
        self.refuse_wider(layer.row_width, job.facts)
        outputs = self.constants(job.facts).outputs
        tolerance = self.tolerance_for(job.facts, self.regularization, noise=0.0)

        def solution() -> Bounded:
            nothing = torch.zeros(outputs * layer.row_width, dtype=torch.float64)
            found = self.solve(
                job,
                features,
                regularization=self.regularization,
                tolerance=tolerance,
                noise=nothing,
            )
            return Bounded(found, self.sensitivity(job.facts))

        release = gate.next()
        if release is not None:
            layer.set_solution(gate.add_noise(release, solution).reshape(outputs, -1))
        return job.module
