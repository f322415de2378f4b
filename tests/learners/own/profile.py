"""A test's learner of three releases: a sum, a choice that follows it, and a sum around the chosen point."""

from __future__ import annotations

import torch
from torch import nn

from dppipe.component import AutoFloat, Field
from dppipe.learners.base import Learner
from dppipe.learners.gating.bounded import Bounded
from dppipe.learners.gating.unit_sums import clamped_unit_sum, clipped_unit_sum
from dppipe.privacy.events.mechanisms import exponential, gaussian, laplace
from dppipe.privacy.release import Release


class Profile(Learner, kind="profile"):
    """Sums the inputs, chooses one of three points, and sums distances from it.

    Guarantee: a unit's first input is clipped to norm 2; each of its scores lies in [-1, 1]; its
    distances are clipped to 1 in the sum of absolute values.
    """

    noise_multiplier: AutoFloat = Field("auto", gt=0)

    def releases(self, facts, *, scale):
        shown = {"noise_multiplier": scale}
        return [
            Release(what="sum", event=gaussian(scale), facts=shown),
            Release(what="selection", event=exponential(1 / scale), facts={"candidates": 3}),
            Release(what="distances", event=laplace(3 * scale), facts=shown),
        ]

    def module(self, facts):
        module = nn.Module()
        module.sum = nn.Parameter(torch.zeros(facts.input_shape, dtype=torch.float64))
        module.distances = nn.Parameter(torch.zeros(facts.input_shape, dtype=torch.float64))
        module.register_buffer("chosen", torch.tensor(-1))
        return module

    def fit(self, job, gate):
        shape = job.facts.input_shape
        records = job.records

        def total():
            found = clipped_unit_sum(
                records.units(), lambda unit: unit.inputs[0], shape=shape, bound=2.0
            )
            return Bounded(found, 2.0)

        job.module.sum.data = gate.add_noise(gate.next(), total).view(shape)
        direction = job.module.sum.data.sign()
        points = torch.stack([level * direction for level in (-1.0, 0.0, 1.0)])

        def scores():
            def near(unit):
                return 1 - (points - unit.inputs[0]).abs().flatten(1).mean(1)

            found = clamped_unit_sum(records.units(), near, candidates=3, bound=1.0)
            return Bounded(found, 1.0)

        chosen = gate.select(gate.next(), scores)

        def distances():
            found = clipped_unit_sum(
                records.units(),
                lambda unit: unit.inputs[0] - points[chosen],
                shape=shape,
                bound=1.0,
                order=1,
            )
            return Bounded(found, 1.0)

        job.module.distances.data = gate.add_noise(gate.next(), distances).view(shape)
        job.module.chosen.fill_(chosen)
        return job.module
