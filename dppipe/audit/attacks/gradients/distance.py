"""Deep leakage: find the record and target whose gradient lies nearest (Zhu, Liu and Han 2019).

Minimised by L-BFGS over the input x, a soft target y and a scale s:

    | s grad(x, y) - g |^2 / | g |^2

The scale is one more variable than in the paper: clipping hides it, and a batch's average divides
it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from dppipe.audit.attacks.gradients.knowledge import Gradient, Knowledge, Recovered, flat
from dppipe.audit.attacks.gradients.searching import Search, best_of_starts
from dppipe.audit.attacks.gradients.targets import free_target, hard_target, target_of

_HISTORY = 20
"""How many past steps L-BFGS remembers."""
_AT_ONCE = 20
"""Steps between two looks at the clock."""
_SMALLEST = 1e-30
"""What a norm is raised to at least, so that a zero gradient divides nothing by zero."""


def recover_by_distance(known: Knowledge, gradient: Gradient, search: Search) -> Recovered:
    """Return the best record of several starts, by the search's own cost."""
    given = flat(gradient)

    def from_one_start(generator: torch.Generator) -> Recovered:
        return _Descent(known, given, search, generator).run()

    return best_of_starts(search, from_one_start)


class _Descent:
    """One descent from one start."""

    def __init__(
        self, known: Knowledge, given: Tensor, search: Search, generator: torch.Generator
    ) -> None:
        self.known = known
        self.given = given
        self.search = search
        self.inputs = known.start(generator).requires_grad_()
        self.free = free_target(known, generator)
        first = flat(known.gradient(self.inputs, target_of(known, self.free)))
        ratio = float(given.norm()) / max(float(first.norm()), _SMALLEST)
        self.log_scale = torch.tensor(math.log(max(ratio, _SMALLEST)), requires_grad=True)
        self.variables = [self.inputs, self.log_scale]
        if self.free is not None:
            self.variables.append(self.free)
        self.unit = max(float(given.square().sum()), _SMALLEST)
        self.best = Recovered(self._record(), None, math.inf)
        self.taken = 0

    def run(self) -> Recovered:
        """Descend until the steps or the time are used up, or no way down is left."""
        optimizer = torch.optim.LBFGS(
            self.variables,
            max_iter=_AT_ONCE,
            history_size=_HISTORY,
            tolerance_grad=0.0,
            tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )
        late = False
        while self.taken < self.search.steps and not late:
            before = self.taken
            optimizer.step(self._evaluate)  # type: ignore[no-untyped-call]
            if self.taken - before <= 1:
                break
            late = self.search.is_late
        return replace(self.best, finished=not late)

    def _evaluate(self) -> float:
        """Return the cost here and leave its slopes in the variables."""
        target = target_of(self.known, self.free)
        found = flat(self.known.gradient(self.inputs, target, keep_graph=True))
        cost = (self.log_scale.exp() * found - self.given).square().sum() / self.unit
        slopes = torch.autograd.grad(cost, self.variables, materialize_grads=True)
        for variable, slope in zip(self.variables, slopes, strict=True):
            variable.grad = slope.nan_to_num()
        value = float(cost.detach())
        if value < self.best.cost:
            self.best = Recovered(self._record(), hard_target(self.known, target.detach()), value)
        self.taken += 1
        return value if math.isfinite(value) else math.inf

    def _record(self) -> Tensor:
        return self.known.held(self.inputs.detach()[0].clone())
