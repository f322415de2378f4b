"""What an attacker knows who sees a gradient: the model at its weights, and what a record is.

That is the adversary of the definition: everything is known but the record. Read next: `exact.py`,
the simplest of the three attacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dppipe.audit.attacks.box import Box
from dppipe.engine.groups import trainable

if TYPE_CHECKING:
    from dppipe.data.base import Task
    from dppipe.engine.contracts import PerSampleLoss

Gradient = Mapping[str, Tensor]
"""The gradient of each trainable parameter, by its name."""


@dataclass(frozen=True)
class Knowledge:
    """What the attacker knows beside the gradient."""

    model: nn.Module
    loss: PerSampleLoss
    task: Task
    outputs: int
    input_shape: tuple[int, ...]
    box: Box | None = None
    """The range of inputs, where it is public; images have one."""
    known_target: Tensor | None = None
    """`[1, ...]`: the record's target, told to the attacker where a user's own loss takes no soft
    one; None where the attacker has to find it."""

    @property
    def is_image(self) -> bool:
        """Whether an input is an image: channels, height and width."""
        return len(self.input_shape) == 3

    def gradient(self, inputs: Tensor, targets: Tensor, *, keep_graph: bool = False) -> Gradient:
        """Return the gradient of one record's loss; zeros for a parameter that isn't used."""
        parameters = trainable(self.model)
        with torch.enable_grad():
            loss = self.loss(self.model, (inputs, targets)).sum()
            found = torch.autograd.grad(
                loss, list(parameters.values()), create_graph=keep_graph, materialize_grads=True
            )
        return dict(zip(parameters, found, strict=True))

    def held(self, inputs: Tensor) -> Tensor:
        """Return inputs that are held to the box."""
        return inputs if self.box is None else inputs.clamp(self.box.low, self.box.high)

    def start(self, generator: torch.Generator) -> Tensor:  # -> [1, *input_shape]
        """Return a random input to start a search from: anywhere in the box, or standard normal."""
        if self.box is None:
            return torch.randn(1, *self.input_shape, generator=generator)
        shares = torch.rand(1, *self.input_shape, generator=generator)
        return self.box.low + self.box.span * shares


@dataclass(frozen=True)
class Recovered:
    """What an attack has found."""

    record: Tensor
    """`[*input_shape]`: the input."""
    target: Tensor | None = None
    """`[1, ...]`: the target, where the attack finds one."""
    cost: float = 0.0
    """What a search has minimised, at its best; 0 for an attack that doesn't search."""
    finished: bool = True
    """Whether a search took all its steps; False where the clock has stopped it."""


def flat(gradient: Gradient) -> Tensor:  # -> [values]
    """Return all values of a gradient in the order of its parameters."""
    return torch.cat([values.flatten() for values in gradient.values()])
