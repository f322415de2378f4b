"""The start of a model."""

from __future__ import annotations

from dppipe.plugin_kit.starters.starter import Starter

PLUGIN = '''\
"""A plugin model: say here what it is good for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppipe import Field, Model

if TYPE_CHECKING:
    from torch import nn


class $class_name(Model, kind="$kind"):
    """One hidden layer, normalised per example: nothing mixes the examples of a batch."""

    width: int = Field(32, gt=0, description="Units in the hidden layer.")

    def build(self, input_shape: Sequence[int], outputs: int) -> nn.Module:
        from torch import nn

        hidden = nn.Linear(math.prod(input_shape), self.width)
        last = nn.Linear(self.width, outputs)
        return nn.Sequential(nn.Flatten(), hidden, nn.LayerNorm(self.width), nn.Tanh(), last)
'''

TEST = """

def test_each_example_has_its_outputs() -> None:
    module = $class_name(width=4).build((1, 8, 8), 10)
    assert module(torch.rand(5, 1, 8, 8)).shape == (5, 10)
"""

STARTER = Starter("model", "Model", PLUGIN, TEST, "{kind: $kind, width: 32}")
