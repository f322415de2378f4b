"""What each kernel of a convolution costs, so that each layer takes the cheapest one."""

from __future__ import annotations

import math

import torch

from dppipe.engine.gradients.costs import MOVE, formed, outer_costs
from dppipe.engine.rules.conv_geometry import Geometry


def kernel_costs(
    geometry: Geometry, inputs: torch.Size, outputs: torch.Size, weight: torch.Size
) -> dict[str, float]:
    """Return what each kernel adds to the cost of the ordinary weight gradient, per row."""
    rows = inputs[0]
    positions = math.prod(outputs[2:])
    window = weight[2:].numel()
    products = positions * weight.numel()
    patches = window * inputs[1] * positions
    input_values = inputs[1:].numel()
    output_values = outputs[1:].numel()
    pixels = 1
    for size, padding in zip(inputs[2:], geometry.padding, strict=True):
        pixels *= size + 2 * padding
    held = formed(rows, weight.numel())
    outer = outer_costs(rows, positions, patches // positions, weight[0])
    # Vector kernels for convolutions with many groups need blocks of 16 channels in each group;
    # without them they are far slower.
    blocks = weight[1] % 16 == 0 and (weight[0] // geometry.groups) % 16 == 0
    grouped = held + 60 * weight.numel() + MOVE / 2 * (input_values + output_values)
    unfolded = held + products * (0.2 + 20 / weight[0]) + MOVE * (patches + input_values)
    moved = MOVE * (patches + input_values + 2 * output_values)
    grams = (pixels**2 * inputs[1] + positions**2 * weight[0]) / geometry.groups
    shifts = window * positions**2 * (MOVE + 600 / outputs[-1])
    return {
        "grouped": grouped * (1 if blocks else 20),
        "unfolded": unfolded,
        "ghost": outer["ghost"] / geometry.groups + moved,
        "pixel": grams + shifts,
    }
