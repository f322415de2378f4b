"""A test's learner that pays for two candidates, each in a ledger of its own, and takes one."""

from __future__ import annotations

import torch
from torch import nn

from dppipe.learners.base import Learner
from dppipe.learners.gating.bounded import Bounded
from dppipe.learners.gating.unit_sums import clipped_unit_sum
from dppipe.planning.plan import Plan
from dppipe.planning.release_plan import LearnerParts, plan_releases
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.release import Release
from dppipe.runs.ledger import Ledger


class Candidate(Learner):
    """What one candidate releases: two sums."""

    def releases(self, facts, *, scale):
        from dp_accounting import GaussianDpEvent

        return [Release(what="sum", event=GaussianDpEvent(scale)) for _ in range(2)]


class Search(Learner, kind="search"):
    """Tries two bounds."""

    def releases(self, facts, *, scale):
        from dp_accounting import GaussianDpEvent

        return [Release(what="selection", event=GaussianDpEvent(scale)) for _ in range(2)]

    def module(self, facts):
        module = nn.Module()
        module.mean = nn.Parameter(torch.zeros(facts.input_shape, dtype=torch.float64))
        return module

    def fit(self, job, gate):
        found = [self.candidate(job, gate, number) for number in (1, 2)]
        job.module.mean.data = max(found, key=lambda mean: float(mean.norm()))
        return job.module

    def candidate(self, job, gate, number):
        plan = self.plan(job)
        folder = job.directory / f"candidate{number}"
        folder.mkdir()
        (folder / "plan.json").write_bytes(plan.to_json())
        with Ledger.create(folder / "ledger.jsonl", plan=plan.to_json()) as ledger:
            covered = gate.covered(gate.next(), plan, ledger)
            total = torch.zeros(job.facts.input_shape, dtype=torch.float64)
            while (release := covered.next()) is not None:
                total += covered.add_noise(release, lambda: self.bounded(job, number))
        return total

    def bounded(self, job, bound):
        units = job.records.units()
        shape = job.facts.input_shape
        total = clipped_unit_sum(units, lambda unit: unit.inputs[0], shape=shape, bound=bound)
        return Bounded(total, float(bound))

    def plan(self, job):
        outer = Plan.from_json((job.directory / "plan.json").read_bytes())
        parts = LearnerParts(Candidate(), Rdp(), Budget(epsilon=1.0, delta=outer.delta), "example")
        stated = ("holdout", "diagnostics", "reproducible", "spec_hash", "committed_hash")
        kept = {name: getattr(outer, name) for name in stated}
        return plan_releases(
            parts, job.facts, name="candidate", learner="search", plugins={}, **kept
        )
