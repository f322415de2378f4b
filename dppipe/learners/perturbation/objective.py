"""The objective of a run: weighted losses, a regularisation of all weights, and noise times them.

    J(w) = sum_i weight_i loss(w; row_i, target_i) + lambda/2 |w|^2 + noise.w

Everything here is private until it has passed the gate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dppipe.learners.perturbation.losses import Loss, make_loss
from dppipe.learners.perturbation.precise_products import Split, precise_product
from dppipe.learners.perturbation.rounding import gradient_round_off

if TYPE_CHECKING:
    from dppipe.learners.linear.rows import Rows
    from dppipe.learners.perturbation.loss_constants import LossConstants


@dataclass(frozen=True, eq=False)
class Objective:
    """A strongly convex function of the weights, a flat vector `[outputs * d]` in float64."""

    constants: LossConstants
    regularization: float
    inputs: Tensor
    """`[n, d]`"""
    rows: Split
    """The same, split."""
    weights: Tensor
    """`[n, 1]`"""
    loss: Loss
    noise: Tensor
    """`[outputs * d]`"""

    @classmethod
    def of(
        cls, rows: Rows, constants: LossConstants, *, regularization: float, noise: Tensor
    ) -> Objective:
        """Return the objective of records."""
        return cls(
            constants,
            regularization,
            rows.inputs,
            Split.of(rows.inputs, peak=constants.max_norm),
            rows.weights.reshape(-1, 1),
            make_loss(constants, rows.targets),
            noise,
        )

    @property
    def size(self) -> int:
        """The number of weights."""
        return self.noise.numel()

    def smoothness(self) -> float:
        """Return a bound on the largest eigenvalue of the Hessian."""
        return self.regularization + float(self.weights.sum()) * self.constants.curvature

    def value_and_gradient(self, weights: Tensor) -> tuple[float, Tensor]:
        """Return value and gradient, as ordinary float64 arithmetic has them."""
        scores = self.inputs @ self._matrix(weights).T
        loss = (self.loss.value(scores) * self.weights[:, 0]).sum()
        value = loss + self.regularization / 2 * weights @ weights + self.noise @ weights
        slopes = (self.loss.slope(scores) * self.weights).T @ self.inputs
        return float(value), slopes.reshape(-1) + self.regularization * weights + self.noise

    def gradient(self, weights: Tensor) -> Tensor:
        """Return the gradient by products that are rounded once (`precise_products.py`)."""
        split = Split.of(self._matrix(weights))
        scores = precise_product(self.rows, split.transposed)
        slopes = Split.of(self.loss.slope(scores) * self.weights)
        moved = precise_product(slopes.transposed, self.rows).reshape(-1)
        return moved + self.regularization * weights + self.noise

    def gradient_norm(self, weights: Tensor, gradient: Tensor) -> float:
        """Return an upper bound on the exact gradient's norm, from the computed gradient.

        Guarantee: round-off is counted (`rounding.py`); it is infinite where a number isn't finite.
        """
        units = 2.0**-52 * (self.size + 16)  # more than a sum of so many squares is off by
        norm = float(torch.linalg.vector_norm(gradient)) * (1 + units)
        off = gradient_round_off(
            self.constants,
            records=float(self.weights.sum()),
            rows=len(self.inputs),
            columns=self.rows.high.shape[1],
            weights=float(torch.linalg.vector_norm(weights)),
            pull=self.regularization * float(torch.linalg.vector_norm(weights))
            + float(torch.linalg.vector_norm(self.noise)),
        )
        return norm + off if math.isfinite(norm) else math.inf

    def curvature_along(self, weights: Tensor, direction: Tensor) -> Tensor:
        """Return the Hessian times a direction."""
        inputs = self.inputs
        scores = inputs @ self._matrix(weights).T
        along = self.loss.bend(scores, inputs @ self._matrix(direction).T)
        return ((along * self.weights).T @ inputs).reshape(-1) + self.regularization * direction

    def hessian(self, weights: Tensor) -> Tensor:
        """Return the Hessian of an objective with one output, `[d, d]`."""
        inputs = self.inputs
        scores = inputs @ self._matrix(weights).T
        bends = self.loss.bend(scores, torch.ones_like(scores)) * self.weights
        found = inputs.T @ (bends * inputs)
        found.diagonal().add_(self.regularization)
        return found

    def _matrix(self, weights: Tensor) -> Tensor:  # -> [outputs, d]
        return weights.reshape(self.constants.outputs, -1)
