"""A test's learner with noise in its objective: the slope of a line, by ridge regression."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dppipe.component import AutoFloat, Field
from dppipe.learners.base import Learner
from dppipe.learners.gating.bounded import Bounded
from dppipe.privacy.release import Release

SEEN: list[bytes] = []
"""The ledger's bytes at the moment when the solver starts."""
NOISE: list[Tensor] = []
"""The noise that the solver was given."""


class Slope(Learner, kind="slope"):
    """Minimises squares, a ridge and noise times the slope, up to a tolerance."""

    noise_multiplier: AutoFloat = Field("auto", gt=0)
    ridge: float = Field(10.0, gt=0)
    tolerance: float = Field(1e-6, gt=0)
    mechanism: str = "gaussian"

    def releases(self, facts, *, scale):
        from dp_accounting import ComposedDpEvent, GaussianDpEvent, LaplaceDpEvent

        inside = GaussianDpEvent(scale) if self.mechanism == "gaussian" else LaplaceDpEvent(scale)
        event = ComposedDpEvent([inside, GaussianDpEvent(50.0)])
        return [Release(what="weights", event=event, facts={"ridge": self.ridge})]

    def module(self, facts):
        module = nn.Module()
        module.slope = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        return module

    def fit(self, job, gate):
        def solve(noise: Tensor) -> Bounded:
            SEEN.append((job.directory / "ledger.jsonl").read_bytes())
            NOISE.append(noise.clone())
            product, square = 0.0, self.ridge
            for unit in job.records.units():
                one = float(unit.inputs[0, 0].clamp(-1, 1))
                product += one * float(unit.targets[0] > 0)
                square += one**2
            return Bounded((product - noise) / square, self.tolerance)

        solution = gate.perturb(gate.next(), solve, size=1, sensitivity=1.0)
        job.module.slope.data = solution
        return job.module
