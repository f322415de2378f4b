"""The start of an optimizer."""

from __future__ import annotations

from dppipe.plugin_kit.starters.starter import Starter

PLUGIN = '''\
"""A plugin optimizer: it sees privatised gradients only, so nothing it does costs privacy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dppipe import Field, Optimizer

if TYPE_CHECKING:
    import torch


class $class_name(Optimizer, kind="$kind"):
    """Adam with Nesterov's momentum."""

    lr: float = Field(0.01, gt=0, description="The learning rate.")
    weight_decay: float = Field(0.0, ge=0, description="Weight decay, as in SGD.")

    def build(self, params: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        import torch

        return torch.optim.NAdam(params, lr=self.lr, weight_decay=self.weight_decay)
'''

TEST = """

def test_it_goes_downhill() -> None:
    parameter = torch.nn.Parameter(torch.tensor([3.0, -2.0]))
    optimizer = $class_name(lr=0.1).build([parameter])
    for _ in range(20):
        parameter.grad = 2 * parameter.detach()
        optimizer.step()
    assert parameter.square().sum() < 13
"""

STARTER = Starter("optimizer", "Optimizer", PLUGIN, TEST, "{kind: $kind, lr: 0.01}")
