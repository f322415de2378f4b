"""A linear model of one block: ridge regression, or a regularised logistic or softmax regression.

Rows are bounded as those of other linear learners (`dppipe/learners/linear`), so that a public
radius suits them; privacy doesn't rest on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from dppipe.learners.linear.feature_map import feature_map
from dppipe.learners.linear.last_layer import bounded_layer
from dppipe.learners.linear.rows import Features, Rows, rows_of
from dppipe.learners.perturbation.loss_constants import LossConstants
from dppipe.learners.perturbation.objective import Objective
from dppipe.learners.perturbation.rounding import reachable_tolerance
from dppipe.learners.perturbation.solver import minimise
from dppipe.learners.records.batch_reader import RecordBatch

if TYPE_CHECKING:
    from dppipe.learners.aggregation.inner_options import LogisticRidgeInner, RidgeInner
    from dppipe.learners.blocks.reading import Block
    from dppipe.learners.job import Job
    from dppipe.learners.linear.bounded_linear import BoundedLinear
    from dppipe.privacy.release import PublicFacts

_TOLERANCE = 1e-6
"""The gradient at which a block's solver ends: far below what noise hides."""


@dataclass(frozen=True)
class LinearEstimator:
    """Solves for the last layer of a network; the origin is zero weights."""

    options: RidgeInner | LogisticRidgeInner
    facts: PublicFacts
    layer: BoundedLinear
    features: Features | None

    @classmethod
    def of(cls, options: RidgeInner | LogisticRidgeInner, job: Job) -> LinearEstimator:
        """Return the estimator of a run; a network in which records see each other is refused."""
        layer = bounded_layer(job.module)
        return cls(options, job.facts, layer, feature_map(job.module, job.facts))

    @property
    def size(self) -> int:
        """The number of weights: those of a row, for each output."""
        return self.layer.out_features * self.layer.row_width

    def estimate(self, block: Block) -> Tensor:  # -> [size]
        """Return the minimiser of the losses of one block."""
        count = len(block.inputs)
        everything = torch.ones(count, dtype=torch.bool)
        batch = RecordBatch(block.inputs, block.targets, everything, torch.arange(count))
        rows = rows_of(
            [batch],
            max_norm=self.options.max_norm,
            scale=self.options.scale,
            bias=self.layer.bias is not None,
            features=self.features,
        )
        return self._ridge(rows) if self.options.kind == "ridge" else self._logistic(rows)

    def set_weights(self, moved: Tensor) -> None:
        """Set the layer to these weights `[size]`."""
        self.layer.set_solution(moved.reshape(self.layer.out_features, -1))

    def _ridge(self, rows: Rows) -> Tensor:  # -> [size]
        """Return the minimiser of (1/2) sum of squares + (lambda/2) |w|^2."""
        weighted = rows.inputs * rows.weights[:, None]
        matrix = weighted.T @ rows.inputs
        matrix.diagonal().add_(self.options.regularization)
        moments = weighted.T @ self._numbers(rows.targets)
        factor = torch.linalg.cholesky(matrix)
        return torch.cholesky_solve(moments, factor).T.reshape(-1)

    def _numbers(self, targets: Tensor) -> Tensor:  # [n] or [n, outputs] -> [n, outputs] float64
        """Return targets as numbers: -1 or 1 of a binary task, one of several columns of others."""
        if self.facts.task == "regression":
            return targets
        if self.facts.task == "binary":
            return 2.0 * targets[:, None].to(torch.float64) - 1.0
        return F.one_hot(targets, self.facts.outputs).to(torch.float64)

    def _logistic(self, rows: Rows) -> Tensor:  # -> [size]
        several = self.facts.task == "multiclass"
        constants = LossConstants(
            loss="softmax" if several else "logistic",
            max_norm=self.options.max_norm,
            outputs=self.facts.outputs if several else 1,
        )
        reachable = reachable_tolerance(
            constants,
            records=math.ceil(float(rows.weights.sum())),
            by_users=False,
            columns=self.layer.row_width,
            regularization=self.options.regularization,
            noise=0.0,
        )
        nothing = torch.zeros(self.size, dtype=torch.float64)
        objective = Objective.of(
            rows, constants, regularization=self.options.regularization, noise=nothing
        )
        return minimise(objective, tolerance=max(_TOLERANCE, 2 * reachable))
