"""A solver that always gets there: it ends where the gradient is proven to be small enough.

L-BFGS goes most of the way and Newton's method the rest. Where both stall, accelerated gradient
steps follow, as many as the condition number proves enough, and Newton's method again. Whichever
ends it, nothing but the solution leaves this file.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy
import torch
from scipy import optimize
from torch import Tensor

if TYPE_CHECKING:
    from dppipe.learners.perturbation.objective import Objective

_EXACT = 4000
"""Weights up to which Newton's method solves with the whole Hessian."""
_NEWTON_STEPS = 30
_HALVINGS = 30
_CG_STEPS = 500
_CG_RESIDUAL = 1e-3


def minimise(objective: Objective, *, tolerance: float) -> Tensor:
    """Return weights at which the exact gradient's norm is at most the tolerance.

    Guarantee: the bound is measured on the weights that are returned, with round-off counted. There
    is no other way out: no status, no count and no message says how the solver got there. A plan
    has refused tolerances that rounding couldn't reach, and the objective is strongly convex and
    smooth, so that the steps below reach every other one.
    """
    weights = _approach(objective, tolerance)
    weights = _newton(objective, weights, tolerance)
    while not _is_reached(objective, weights, tolerance):
        weights = _accelerated(objective, weights, tolerance)
        weights = _newton(objective, weights, tolerance)
    return weights


def _is_reached(objective: Objective, weights: Tensor, tolerance: float) -> bool:
    return objective.gradient_norm(weights, objective.gradient(weights)) <= tolerance


def _approach(objective: Objective, tolerance: float) -> Tensor:
    """Return the weights that L-BFGS ends at, wherever that is."""

    def function(flat: numpy.ndarray) -> tuple[float, numpy.ndarray]:
        value, gradient = objective.value_and_gradient(torch.from_numpy(flat.copy()))
        return value, gradient.numpy()

    options = {"maxiter": 500, "maxcor": 20, "gtol": tolerance, "ftol": 0.0}
    start = numpy.zeros(objective.size)
    found = optimize.minimize(function, start, jac=True, method="L-BFGS-B", options=options)
    weights = torch.from_numpy(found.x.copy())
    return weights if bool(weights.isfinite().all()) else torch.zeros_like(weights)


def _newton(objective: Objective, weights: Tensor, tolerance: float) -> Tensor:
    """Take Newton steps while the gradient gets smaller, until it is small enough."""
    gradient = objective.gradient(weights)
    norm = objective.gradient_norm(weights, gradient)
    for _ in range(_NEWTON_STEPS):
        if norm <= tolerance:
            break
        direction = _newton_direction(objective, weights, gradient)
        step = 1.0
        for _ in range(_HALVINGS):
            moved = weights - step * direction
            moved_gradient = objective.gradient(moved)
            moved_norm = objective.gradient_norm(moved, moved_gradient)
            if moved_norm < norm:
                break
            step /= 2
        else:
            break
        weights, gradient, norm = moved, moved_gradient, moved_norm
    return weights


def _newton_direction(objective: Objective, weights: Tensor, gradient: Tensor) -> Tensor:
    """Return the inverse Hessian times the gradient, or close to it."""
    if objective.constants.outputs == 1 and objective.size <= _EXACT:
        factor, failed = torch.linalg.cholesky_ex(objective.hessian(weights))
        if not int(failed):
            return torch.cholesky_solve(gradient[:, None], factor)[:, 0]
    return _conjugate_gradients(objective, weights, gradient)


def _conjugate_gradients(objective: Objective, weights: Tensor, gradient: Tensor) -> Tensor:
    found = torch.zeros_like(gradient)
    residual = gradient.clone()
    direction = residual.clone()
    square = float(residual @ residual)
    least = _CG_RESIDUAL**2 * square
    for _ in range(_CG_STEPS):
        if square <= least:
            break
        bent = objective.curvature_along(weights, direction)
        step = square / float(direction @ bent)
        found += step * direction
        residual -= step * bent
        before = square
        square = float(residual @ residual)
        direction = residual + square / before * direction
    return found


def _accelerated(objective: Objective, weights: Tensor, tolerance: float) -> Tensor:
    """Take accelerated gradient steps, as many as are proven to reach the tolerance.

    With M and m the largest and the smallest curvature, the distance to the minimum falls at least
    by the factor 1 - sqrt(m/M) in two of its squares (Nesterov 2004, theorem 2.2.3).
    """
    largest = objective.smoothness()
    least = objective.regularization
    root = math.sqrt(least / largest)
    momentum = (1 - root) / (1 + root)
    norm = objective.gradient_norm(weights, objective.gradient(weights))
    # The gradient is at most M times the distance, and the distance at most the gradient over m.
    wanted = tolerance / 4
    needed = 2 * math.log(max(2.0, 2 * (largest / least) ** 1.5 * norm / wanted)) / root
    ahead = weights
    for _ in range(math.ceil(needed)):
        moved = ahead - objective.gradient(ahead) / largest
        ahead = moved + momentum * (moved - weights)
        weights = moved
    return weights
