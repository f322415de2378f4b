"""What output and objective perturbation have in common: a loss, its constants and a tolerance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from dppipe.component import AutoFloat, Field
from dppipe.errors import PrivacyRefusal
from dppipe.learners.linear.base import LinearLearner
from dppipe.learners.perturbation.loss_constants import LossConstants, LossName, loss_for_task
from dppipe.learners.perturbation.rounding import MOST_RECORDS, reachable_tolerance
from dppipe.privacy.rounding import round_up

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.learners.job import Job
    from dppipe.learners.linear.rows import Features
    from dppipe.privacy.release import PublicFacts

_TOLERANCE = 1e-8
_LOSSES: dict[str, tuple[str, ...]] = {
    "binary": ("logistic", "hinge"),
    "multiclass": ("softmax",),
    "regression": ("huber",),
}


class PerturbedLearner(LinearLearner):
    """Minimises a sum of losses of a linear model, with a regularisation of all weights.

    Guarantee: whatever solver is used, the exact gradient at its solution is at most the tolerance
    (`solver.py`). The bias is regularised like every other weight.
    """

    loss: LossName | Literal["auto"] = Field(
        "auto", description="The loss; auto: logistic, softmax or huber, by the task."
    )
    hinge_width: float = Field(
        0.5, ge=1e-3, le=1e3, description="The half-width of the bend of the hinge loss."
    )
    huber_threshold: float = Field(
        1.0, ge=1e-6, le=1e6, description="The residual at which the Huber loss becomes linear."
    )
    tolerance: AutoFloat = Field(
        "auto",
        gt=0,
        description="The gradient at which the solver ends; auto: 1e-8, or what rounding allows.",
    )
    mechanism: Literal["gaussian", "pure"] = Field(
        "gaussian", description="`pure`: spherical noise, which is private with delta 0."
    )

    def constants(self, facts: PublicFacts) -> LossConstants:
        """Return the constants of the loss on rows of bounded norm."""
        loss = loss_for_task(facts.task) if self.loss == "auto" else self.loss
        widths = {"hinge": self.hinge_width, "huber": self.huber_threshold}
        return LossConstants(
            loss=loss,
            max_norm=self.max_norm,
            outputs=facts.outputs if loss == "softmax" else 1,
            width=widths.get(loss, 1.0),
        )

    def problems(self, facts: PublicFacts) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield a loss that the task doesn't have, and a regression with several outputs."""
        known = _LOSSES.get(facts.task, ())
        if self.loss != "auto" and self.loss not in known:
            yield (
                ("learner", "loss"),
                f"expected {' or '.join(known)} for a {facts.task} task, got {self.loss}. Take "
                "that, or auto.",
            )
        elif facts.task == "regression" and facts.outputs != 1:
            yield (
                ("learner", "kind"),
                f"expected a regression with one target, got {facts.outputs}. Take learner: "
                "linear_regression, or dp_sgd.",
            )

    def tolerance_for(self, facts: PublicFacts, regularization: float, *, noise: float) -> float:
        """Return the tolerance; one that rounding couldn't reach is refused.

        Args:
            facts: What is known before a record is read.
            regularization: The lambda of the objective.
            noise: What the norm of noise inside the objective stays below.
        """
        reachable = reachable_tolerance(
            self.constants(facts),
            records=facts.records,
            by_users=facts.unit == "user",
            columns=columns_of(facts),
            regularization=regularization,
            noise=noise,
        )
        self._refuse_flat(facts, regularization, reachable)
        least = round_up(reachable, 2)
        if self.tolerance == "auto":
            return max(_TOLERANCE, least)
        if self.tolerance < least:
            raise PrivacyRefusal(
                f"learner.tolerance: expected at least {least:g}, which float64 can reach for "
                f"these records, got {self.tolerance:g}. Raise it, or take auto."
            )
        return self.tolerance

    def _refuse_flat(self, facts: PublicFacts, regularization: float, reachable: float) -> None:
        """Refuse a lambda so small that rounding hides a whole record's gradient."""
        if not reachable < self.constants(facts).gradient_bound:
            raise PrivacyRefusal(
                "learner.regularization: expected one at which float64 can find the minimum for "
                f"these records, got {regularization:g}. Raise it."
            )

    def solve(
        self,
        job: Job,
        features: Features | None,
        *,
        regularization: float,
        tolerance: float,
        noise: Tensor,
    ) -> Tensor:
        """Return the minimiser, to the tolerance; call this inside a gate's computation."""
        from dppipe.learners.perturbation.objective import Objective
        from dppipe.learners.perturbation.solver import minimise

        rows = self.rows(job, features)
        if job.facts.records is None and float(rows.weights.sum()) > MOST_RECORDS:
            raise PrivacyRefusal(
                f"data: expected at most {MOST_RECORDS:,} records where their number is secret, "
                "got more. Take relation: zero_out."
            )
        objective = Objective.of(
            rows, self.constants(job.facts), regularization=regularization, noise=noise
        )
        return minimise(objective, tolerance=tolerance)

    def refuse_wider(self, width: int, facts: PublicFacts) -> None:
        """Refuse features that are longer than what the tolerance was planned for."""
        if width > columns_of(facts):
            raise PrivacyRefusal(
                f"model: expected at most {columns_of(facts) - 1} features of learner "
                f"{self.kind!r}, as many as numbers in an input, got {width - 1}. Its tolerance is "
                "planned for those."
            )


def columns_of(facts: PublicFacts) -> int:
    """Return the length of a row that a plan reckons with: an input's, and 1 for the bias."""
    size = 1
    for side in facts.input_shape:
        size *= side
    return size + 1
