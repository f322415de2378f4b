"""Inverting a class: an input that the model is sure about (Fredrikson, Jha and Ristenpart 2015).

Minimised over inputs x in their box, by gradient descent from one starting input:

    1 - p_c(x) + a TV(x)

All classes descend side by side. What comes out is what the model takes for typical of a class. A
record's privacy doesn't hide that, and isn't meant to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dppipe.audit.attacks.predictor import Predictor, log_probabilities
from dppipe.audit.attacks.variation import total_variations

if TYPE_CHECKING:
    from dppipe.audit.attacks.box import Box

RATE = 0.1
"""The step of the descent."""
STEPS = 5000
"""The most steps."""
PATIENCE = 100
"""A class stops after so many steps without a gain."""
GOOD_ENOUGH = 0.01
"""A class stops at this cost."""
VARIATION = 0.02
"""The weight of the total variation, where the attacker expects smooth images."""


@dataclass(frozen=True)
class Inverted:
    """What an attack takes for typical of each class."""

    classes: tuple[int, ...]
    records: Tensor
    """`[classes, *input_shape]`."""
    confidences: tuple[float, ...]
    """The attacked model's probability of the class at each record."""


def confidences_of(
    model: Predictor, records: Tensor, classes: tuple[int, ...]
) -> tuple[float, ...]:
    """Return the probability that a model gives to each record's class."""
    found = model.log_probabilities(records).exp()
    return tuple(float(found[row, number]) for row, number in enumerate(classes))


def invert_classes(
    model: Predictor,
    classes: tuple[int, ...],
    *,
    start: Tensor,  # [*input_shape]
    box: Box | None = None,
    smooth: bool = False,
) -> Inverted:
    """Return an input of each class by gradient descent from the starting input.

    Args:
        model: The attacked model; its rows don't affect each other.
        classes: The classes.
        start: The starting input.
        box: The range of inputs, where it is known.
        smooth: Whether the total variation of an image counts.
    """
    inputs = start.expand(len(classes), *start.shape).clone()
    best = inputs.clone()
    lowest = torch.full((len(classes),), torch.inf)
    idle = torch.zeros(len(classes), dtype=torch.long)
    weight = VARIATION if smooth else 0.0
    for _ in range(STEPS):
        costs, slopes = _costs(model, inputs, classes, variation=weight)
        gains = costs < lowest
        best[gains] = inputs[gains]
        lowest = torch.minimum(lowest, costs)
        idle = torch.where(gains, 0, idle + 1)
        if not bool(((lowest >= GOOD_ENOUGH) & (idle < PATIENCE)).any()):
            break
        moved = inputs - RATE * slopes.nan_to_num()
        inputs = moved if box is None else moved.clamp(box.low, box.high)
    return Inverted(classes, best, confidences_of(model, best, classes))


def _costs(
    model: Predictor, inputs: Tensor, classes: tuple[int, ...], *, variation: float
) -> tuple[Tensor, Tensor]:  # -> [classes], [classes, *input_shape]
    """Return each class's cost at its input, and the slope of it."""
    places = inputs.detach().requires_grad_()
    with torch.enable_grad():
        logs = log_probabilities(model(places), task=model.task)
        costs = 1 - logs[torch.arange(len(classes)), list(classes)].exp()
        if variation:
            costs = costs + variation * total_variations(places)
        (slopes,) = torch.autograd.grad(costs.sum(), [places])
    return costs.detach().float(), slopes
