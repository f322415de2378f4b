"""Objective perturbation: the minimiser of an objective that has noise in it (one release).

Chaudhuri, Monteleoni and Sarwate 2011; Kifer, Smith and Thakurta 2012; Iyengar et al. 2019. What it
costs, and why, stands in `dppipe/privacy/events/OBJECTIVE.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dppipe.component import AutoFloat, Field
from dppipe.learners.base import PublicFacts, Release
from dppipe.learners.perturbation.base import PerturbedLearner, columns_of
from dppipe.learners.perturbation.rounding import noise_reach

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from torch import Tensor, nn

    from dppipe.learners.gate import Gate
    from dppipe.learners.gating.bounded import Bounded
    from dppipe.learners.job import Job

_AFTER = {"gaussian": 100.0, "pure": 1000.0}
"""How much larger the multiplier of the noise on the solution is, over its sensitivity."""


class ObjectivePerturbation(PerturbedLearner, kind="objective_perturbation"):
    """Draws noise once, and releases what minimises the losses with the noise among them.

    Guarantee: `OBJECTIVE.md`, lemmas 1 to 12. One record's gradient is at most L, which the noise
    is scaled by. Noise on the solution pays for a solver that ends within the tolerance tau: two
    solutions for one exact minimiser are at most 2 tau / lambda apart.
    """

    regularization: AutoFloat = Field(
        "auto", gt=0, description="Lambda, over the sum of losses; auto: from the budget."
    )

    def problems(self, facts: PublicFacts) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what the proof doesn't cover: users, replaced records, too small a lambda."""
        found = list(super().problems(facts))
        yield from found
        if facts.unit == "user":
            yield (
                ("learner", "kind"),
                "expected unit: example with objective_perturbation, whose proof needs one "
                "record's Hessian to have rank one, got user. Take output_perturbation, or leave "
                "the users out of the data.",
            )
        if facts.relation == "replace_one":
            yield (
                ("budget", "relation"),
                "expected zero_out or add_remove with objective_perturbation, got replace_one, for "
                "which no bound is known. Take one of them, or output_perturbation.",
            )
        if not found and facts.epsilon is not None and self.regularization != "auto":
            yield from self._too_small(facts, facts.epsilon, self.regularization)

    def _too_small(
        self, facts: PublicFacts, epsilon: float, given: float
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        constants = self.constants(facts)
        least = constants.least_regularization(epsilon)
        if given <= least:
            enough = constants.default_regularization(epsilon)
            yield (
                ("learner", "regularization"),
                f"expected more than {least:.4g}, since below that no noise keeps epsilon "
                f"{epsilon:g}, got {given:g}. Take {enough:.4g}, or auto.",
            )

    def lambda_for(self, facts: PublicFacts) -> float:
        """Return the regularisation: the option, or one that follows from the budget alone."""
        if self.regularization != "auto":
            return self.regularization
        return self.constants(facts).default_regularization(facts.epsilon or 1.0)

    def releases(self, facts: PublicFacts, *, scale: float) -> Sequence[Release]:
        """Return the one release: the weights."""
        constants = self.constants(facts)
        regularization = self.lambda_for(facts)
        return [
            Release(
                what="weights",
                event=self._event(facts, scale=scale),
                facts={
                    "noise_multiplier": scale,
                    "loss": constants.loss,
                    "max_norm": self.max_norm,
                    "regularization": regularization,
                    "tolerance": self._tolerance(facts, scale=scale),
                },
            )
        ]

    def _event(self, facts: PublicFacts, *, scale: float) -> DpEvent:
        from dp_accounting import ComposedDpEvent, GaussianDpEvent

        from dppipe.privacy.events.mechanisms import spherical

        constants = self.constants(facts)
        regularization = self.lambda_for(facts)
        later = scale * _AFTER[self.mechanism]
        if self.mechanism == "pure":
            log_determinant = constants.log_determinant(regularization)
            inside = spherical(scale, log_determinant=log_determinant)
            return ComposedDpEvent([inside, spherical(later)])
        return ComposedDpEvent([constants.event(scale, regularization), GaussianDpEvent(later)])

    def _tolerance(self, facts: PublicFacts, *, scale: float) -> float:
        constants = self.constants(facts)
        size = columns_of(facts) * constants.outputs
        noise = noise_reach(self.mechanism, size, scale * constants.gradient_bound)
        return self.tolerance_for(facts, self.lambda_for(facts), noise=noise)

    def fit(self, job: Job, gate: Gate) -> nn.Module:
        """Set the layer to the minimiser of the perturbed objective."""
        from dppipe.learners.gating.bounded import Bounded
        from dppipe.learners.linear.last_layer import bounded_layer
        from dppipe.privacy.events.multipliers import composed_noises

        features = self.features(job)
        layer = bounded_layer(job.module)
        self.refuse_wider(layer.row_width, job.facts)
        constants = self.constants(job.facts)
        regularization = self.lambda_for(job.facts)
        release = gate.next()
        if release is None:
            return job.module
        inside = composed_noises(release.event)[0]
        tolerance = self._tolerance(job.facts, scale=inside.multiplier)

        def solve(noise: Tensor) -> Bounded:
            found = self.solve(
                job, features, regularization=regularization, tolerance=tolerance, noise=noise
            )
            return Bounded(found, 2 * tolerance / regularization * (1 + 2.0**-40))

        size = constants.outputs * layer.row_width
        solution = gate.perturb(release, solve, size=size, sensitivity=constants.gradient_bound)
        layer.set_solution(solution.reshape(constants.outputs, -1))
        return job.module
