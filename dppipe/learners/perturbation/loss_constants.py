"""The public constants of a loss on rows of bounded norm: what a plan is made of.

`max_norm` is the bound X on a row's norm, bias included, and `regularization` the lambda of
`sum of losses + lambda/2 |weights|^2`. The lemmas stand in `dppipe/privacy/events/OBJECTIVE.md`.
Nothing here imports torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dppipe.privacy.events.plain import event_from_data

if TYPE_CHECKING:
    from dp_accounting import DpEvent

LossName = Literal["logistic", "softmax", "huber", "hinge"]
_GENEROUS = 4.0
"""Where the determinant isn't free, it takes about a quarter of the budget by default."""


@dataclass(frozen=True, kw_only=True)
class LossConstants:
    """One loss, on rows of norm at most `max_norm`."""

    loss: LossName
    max_norm: float
    outputs: int = 1
    """How many rows of weights there are: the classes of softmax, else 1."""
    width: float = 1.0
    """The half-width of the hinge's bend, or the threshold of the Huber loss."""

    @property
    def gradient_bound(self) -> float:
        """L: the largest norm of one record's gradient."""
        if self.loss == "softmax":
            return math.sqrt(2) * self.max_norm
        return self.max_norm * (self.width if self.loss == "huber" else 1.0)

    @property
    def bend(self) -> float:
        """The largest second derivative along a row of norm 1; for softmax, eigenvalue."""
        bends = {"logistic": 0.25, "softmax": 0.5, "huber": 1.0, "hinge": 0.5 / self.width}
        return bends[self.loss]

    @property
    def bend_times_score(self) -> float:
        """The largest second derivative times the score there: how a rounded score is felt.

        It is infinite where a large score may stand where the loss bends.
        """
        if self.loss == "hinge":
            return (1 + self.width) / (2 * self.width)
        return 0.25 if self.loss == "logistic" else math.inf

    @property
    def at_zero(self) -> float:
        """The loss of weights that are zero; infinite where targets are unbounded."""
        values = {
            "logistic": math.log(2),
            "softmax": math.log(max(self.outputs, 2)),
            "huber": math.inf,
            "hinge": 1.0 + self.width,
        }
        return values[self.loss]

    @property
    def curvature(self) -> float:
        """The largest second derivative of one record's loss; for softmax, eigenvalue."""
        return self.bend * self.max_norm**2

    def log_determinant(self, regularization: float) -> float:
        """Return what one record adds to the log determinant of the Hessian, at most (lemma 2)."""
        if self.loss == "softmax":
            leverage = self.max_norm**2 / regularization
            return (self.outputs - 1) * math.log1p(leverage / self.outputs) * (1 + 2.0**-46)
        return math.log1p(self.curvature / regularization) * (1 + 2.0**-46)

    def least_regularization(self, epsilon: float) -> float:
        """Return the lambda below which no noise keeps epsilon: the determinant alone costs it."""
        if epsilon > 700:
            return 0.0
        if self.loss == "softmax":
            grown = math.expm1(epsilon / (self.outputs - 1))
            return self.max_norm**2 / (self.outputs * grown)
        return self.curvature / math.expm1(epsilon)

    def default_regularization(self, epsilon: float) -> float:
        """Return a lambda at which the determinant costs little.

        For the logistic loss X^2/epsilon costs next to nothing.
        """
        if self.loss == "logistic":
            return self.max_norm**2 / epsilon
        whole = self.curvature * (2 * (1 - 1 / self.outputs) if self.loss == "softmax" else 1.0)
        return _GENEROUS * whole / epsilon

    def event(self, noise_multiplier: float, regularization: float) -> DpEvent:
        """Return the event of Gaussian noise inside the objective, its deviation over L.

        The logistic loss with lambda >= 2 sigma^2 is dominated by a Gaussian (lemma 5).
        """
        leverage = self.max_norm**2 / regularization
        data: dict[str, object] = {"noise_multiplier": noise_multiplier}
        if self.loss == "logistic":
            if regularization * (1 - 2.0**-50) >= 2 * (noise_multiplier * self.max_norm) ** 2:
                return event_from_data({"type": "GaussianDpEvent", **data})
            return event_from_data(
                {"type": "LogisticObjectiveDpEvent", **data, "leverage": leverage}
            )
        if self.loss == "softmax":
            data |= {"type": "SoftmaxObjectiveDpEvent", "leverage": leverage}
            return event_from_data({**data, "classes": self.outputs})
        signs = "One" if self.loss == "hinge" else "Two"
        data |= {"type": f"{signs}SignedObjectiveDpEvent"}
        return event_from_data({**data, "curvature": self.curvature / regularization})


def loss_for_task(task: str) -> LossName:
    """Return the usual loss of a task."""
    usual: dict[str, LossName] = {"binary": "logistic", "multiclass": "softmax"}
    return usual.get(task, "huber")
