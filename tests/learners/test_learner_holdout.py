"""A private holdout of a learner without steps: nothing of it reaches the released weights."""

from __future__ import annotations

from pathlib import Path

import torch
from learners.plugin_runs import make_desk

COUNTING = '''\
from dppipe import Field, Learner, Release
from dppipe.component import AutoFloat
from dppipe.privacy.events.mechanisms import gaussian


class Counting(Learner, kind="counting"):
    """Counts the units."""

    takes = frozenset({"model"})
    noise_multiplier: AutoFloat = Field("auto", gt=0, description="The noise.")

    def releases(self, facts, *, scale):
        return [Release(what="count", event=gaussian(scale))]

    def fit(self, job, gate):
        import torch

        gate.sum_units(gate.next(), lambda unit: torch.ones(1), shape=(1,), bound=1.0)
        return job.module
'''

NETWORK = '''\
import torch
from torch import nn


class Remembers(nn.Module):
    """A linear layer that keeps the sum of the inputs it has seen."""

    def __init__(self, input_shape, outputs):
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.register_buffer("seen", torch.zeros(5))

    def forward(self, x):
        self.seen += x.detach().sum(0)
        return self.layer(x)
'''

SPEC = """\
version: 1
name: counting
learner: {kind: counting}
data: {kind: synthetic, size: 200, features: 5, classes: 3, holdout: private}
model: {class_path: network.Remembers}
budget: {epsilon: 1.0, delta: 1.0e-5}
"""


def test_what_a_module_keeps_of_a_private_holdout_is_not_among_the_released_weights(
    tmp_path: Path,
) -> None:
    desk = make_desk(tmp_path / "desk", plugin=COUNTING, spec=SPEC)
    (desk.folder / "network.py").write_text(NETWORK)
    run = desk.run()
    weights = torch.load(run / "checkpoints" / "final.ckpt", weights_only=True)
    assert "nonprivate/val" in (run / "summary.json").read_text()  # the holdout was scored
    assert weights["seen"].tolist() == [0.0] * 5
