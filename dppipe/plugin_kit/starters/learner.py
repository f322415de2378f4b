"""The start of a learner."""

from __future__ import annotations

from dppipe.plugin_kit.starters.starter import Starter

PLUGIN = '''\
"""A plugin learner: say here what it releases, and how a model follows from that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppipe import Field, Learner, Release
from dppipe.component import AutoFloat
from dppipe.errors import UsageError
from dppipe.privacy.events.mechanisms import gaussian

if TYPE_CHECKING:
    from torch import Tensor, nn

    from dppipe.learners.job import Job
    from dppipe.learners.plugin_gate import PluginGate
    from dppipe.learners.records.training_records import Unit
    from dppipe.privacy.release import PublicFacts


class $class_name(Learner, kind="$kind"):
    """Releases the mean of all inputs: a noisy sum of clipped ones, over their number."""

    noise_multiplier: AutoFloat = Field(
        "auto", gt=0, description="The noise over max_norm; auto lands on the budget."
    )
    max_norm: float = Field(1.0, gt=0, description="The norm that each input is clipped to.")

    # All that is released, in order: it is planned and charged before a record is read.
    def releases(self, facts: PublicFacts, *, scale: float) -> Sequence[Release]:
        if facts.records is None:
            raise UsageError(
                "budget.relation: expected one under which the number of records is public, got "
                f"{facts.relation}. A mean is divided by it."
            )
        shown = {"noise_multiplier": scale, "max_norm": self.max_norm}
        return [Release(what="mean", event=gaussian(scale), facts=shown)]

    # The model before training.
    def module(self, facts: PublicFacts) -> nn.Module:
        import torch

        module = torch.nn.Module()
        module.register_buffer("mean", torch.zeros(facts.input_shape))
        return module

    # The gate calls a function with one unit at a time, clips what it returns, and adds noise.
    def fit(self, job: Job, gate: PluginGate) -> nn.Module:
        def own_mean(unit: Unit) -> Tensor:  # the records of one unit: [records, ...]
            return unit.inputs.mean(0)

        total = gate.sum_units(
            gate.next(), own_mean, shape=job.facts.input_shape, bound=self.max_norm
        )
        job.module.mean.copy_(total / job.facts.records)
        return job.module
'''

TEST = """

def test_a_mean_is_that_of_clipped_inputs() -> None:
    learner = $class_name(max_norm=0.5)
    facts = CASES[0]
    fitted = fit_recorded(learner, facts)
    inputs = MadeUpRecords(facts).inputs
    clipped = inputs / (inputs.norm(dim=1, keepdim=True) / 0.5).clamp(min=1)
    torch.testing.assert_close(fitted.trained.mean, clipped.mean(0))
"""

STARTER = Starter(
    "learner",
    "Learner",
    PLUGIN,
    TEST,
    "{kind: $kind, max_norm: 5.0}",
    without=("model", "optimizer", "sampler", "clipping", "noise", "train"),
    imports=(
        "from dppipe.plugin_kit.checks.learner_trials import CASES, MadeUpRecords, fit_recorded\n"
    ),
)
