"""Targets of bounded norm: those of a regression are clipped, those of classes have one length.

Two classes have the targets -1 and 1, so that a model predicts by the sign of its output. Of K
classes, class k has the target `e_k - 1/K`: the largest output predicts. Which classes there are
is stated by the spec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dppipe.learners.linear.row_bounds import bound_vectors

if TYPE_CHECKING:
    from dppipe.privacy.release import PublicFacts


def bounded_targets(targets: Tensor, facts: PublicFacts, *, bound: float) -> Tensor:
    """Return targets `[n, outputs]` in float64 of a norm of at most `bound`.

    Guarantee: each is a function of its own record and of public constants. For one output this
    clamps to [-bound, bound]; for several the norm of a record's target vector is bounded. The
    targets of classes have one norm: 1 for two, and sqrt(1 - 1/K) for K, up to four units of
    float64.

    Args:
        targets: Class numbers `[n]`, or `[n, outputs]` of a regression.
        facts: The task and the number of outputs.
        bound: The bound Y of a regression.
    """
    if facts.task == "regression":
        return bound_vectors(targets, max_norm=bound, scale="clip")
    if facts.task == "binary":
        return 2 * targets.to(torch.float64)[:, None] - 1
    classes = torch.nn.functional.one_hot(targets, facts.outputs)
    return classes.to(torch.float64) - 1 / facts.outputs
