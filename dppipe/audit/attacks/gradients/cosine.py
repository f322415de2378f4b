"""Inverting gradients: find the record whose gradient has the same direction (Geiping et al. 2020).

Minimised over inputs x in their box, with Adam that gets the sign of the slope only:

    1 - cos(grad(x, y), g) + a TV(x)

TV is the total variation of an image. The rate falls to a tenth at 3/8, 5/8 and 7/8 of the steps.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from dppipe.audit.attacks.gradients.knowledge import Gradient, Knowledge, Recovered, flat
from dppipe.audit.attacks.gradients.searching import Search, best_of_starts
from dppipe.audit.attacks.gradients.targets import free_target, hard_target, target_of
from dppipe.audit.attacks.variation import total_variations

RATE = 0.1
"""The first step of the search, in units of the input."""
MILESTONES = (3 / 8, 5 / 8, 7 / 8)
VARIATION = 1e-4
"""The weight of the total variation, for images."""


def recover_by_direction(
    known: Knowledge, gradient: Gradient, search: Search, *, target: Tensor | None = None
) -> Recovered:
    """Return the best record of several starts, by the search's own cost.

    Args:
        known: What the attacker knows.
        gradient: What the attacker has seen.
        search: The limits.
        target: What the gradient of the last bias says of the target; None where it says nothing.
    """
    given = flat(gradient)

    def from_one_start(generator: torch.Generator) -> Recovered:
        return _descend(known, given, search, generator, target)

    return best_of_starts(search, from_one_start)


def _descend(
    known: Knowledge,
    given: Tensor,
    search: Search,
    generator: torch.Generator,
    target: Tensor | None,
) -> Recovered:
    inputs = known.start(generator).requires_grad_()
    free = None if target is not None else free_target(known, generator)
    variables = [inputs] if free is None else [inputs, free]
    optimizer = torch.optim.Adam(variables, lr=RATE)
    milestones = [round(search.steps * share) for share in MILESTONES]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, gamma=0.1)
    best = Recovered(inputs.detach()[0].clone(), target, math.inf)
    for _ in range(search.steps):
        if search.is_late:
            return replace(best, finished=False)
        sought = target if target is not None else target_of(known, free)
        cost = _mismatch(known, inputs, sought, given)
        value = float(cost.detach())
        if value < best.cost:
            found = hard_target(known, sought.detach())
            best = Recovered(inputs.detach()[0].clone(), found, value)
        slopes = torch.autograd.grad(cost, variables, materialize_grads=True)
        for variable, slope in zip(variables, slopes, strict=True):
            variable.grad = slope.nan_to_num().sign()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            inputs.copy_(known.held(inputs))
    return best


def _mismatch(known: Knowledge, inputs: Tensor, target: Tensor, given: Tensor) -> Tensor:
    found = flat(known.gradient(inputs, target, keep_graph=True))
    likeness = F.cosine_similarity(found, given, dim=0)
    # A regression's target decides the sign: on the wrong side of it a search would be stuck.
    cost = 1 - (likeness.abs() if known.task == "regression" else likeness)
    return cost + VARIATION * total_variations(inputs).sum() if known.is_image else cost
