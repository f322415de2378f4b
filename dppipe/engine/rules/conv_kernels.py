"""Ways to hold the per-row gradients of a convolution's weight; which is cheapest depends on the layer's shape.

    grouped   formed by one convolution with the rows as groups; good for large maps
    unfolded  formed by one batched matrix product on unfolded patches; good for small maps and few channels
    ghost     norms from Gram matrices of patches and output gradients; good for many channels on small maps
    pixel     the same with the patches' Gram matrix summed from the pixels'; better still at stride 1

The last two form nothing: the weighted sum is the layer's ordinary weight gradient with scaled output gradients.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from dppipe.engine.gradients import Dense, Gradients, Outer, zero_rows
from dppipe.engine.rules.costs import WORD, outer_costs


@dataclass(frozen=True)
class Geometry:
    """How a convolution's window moves; `groups` counts channel groups."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def weight_gradient(self, inputs: Tensor, outputs: Tensor, weight: Tensor, *, groups: int | None = None) -> Tensor:
        """Give the gradient of a weight of this shape, summed over rows."""
        none = [0] * len(self.stride)
        count = self.groups if groups is None else groups
        found: Tensor
        _, found, _ = torch.ops.aten.convolution_backward(
            outputs, inputs, weight, None, self.stride, self.padding, self.dilation, False, none, count, [False, True, False]
        )
        return found

    def exact(self, large: Tensor, small: Tensor, weight: Tensor) -> tuple[Geometry, Tensor]:
        """Pad or cut the large map so that the window has just the small map's positions, whatever the output padding was."""
        sides: list[int] = []
        for i, (stride, padding, dilation) in reversed(
            list(enumerate(zip(self.stride, self.padding, self.dilation, strict=True)))
        ):
            reach = stride * (small.shape[i + 2] - 1) + dilation * (weight.shape[i + 2] - 1) + 1
            sides += [padding, reach - padding - large.shape[i + 2]]
        return replace(self, padding=(0,) * len(self.padding)), F.pad(large, sides)

    def padded(self, inputs: Tensor) -> Tensor:
        """Give the inputs with their padding."""
        return F.pad(inputs, [side for size in reversed(self.padding) for side in (size, size)]) if any(self.padding) else inputs

    def unfold(self, inputs: Tensor, weight: Tensor, positions: Sequence[int]) -> Tensor:  # -> [B, groups, T, C / groups * k]
        """Give the patch under the window at every position."""
        patches = self.padded(inputs)
        for i, (stride, dilation, size) in enumerate(zip(self.stride, self.dilation, weight.shape[2:], strict=True)):
            patches = patches.unfold(i + 2, dilation * (size - 1) + 1, stride)[..., ::dilation].narrow(i + 2, 0, positions[i])
        dims = len(self.stride)
        rows, channels = patches.shape[:2]
        split = patches.reshape(rows, self.groups, channels // self.groups, *patches.shape[2:])
        order = (0, 1, *range(3, 3 + dims), 2, *range(3 + dims, 3 + 2 * dims))
        return split.permute(order).reshape(rows, self.groups, math.prod(positions), -1)

    def split_outputs(self, outputs: Tensor) -> Tensor:  # [B, p, ...] -> [B, groups, T, p / groups]
        """Give the output gradients position by position."""
        return torch.unflatten(outputs.flatten(2), 1, (self.groups, -1)).transpose(2, 3)


def grouped(geometry: Geometry, inputs: Tensor, outputs: Tensor, weight: Tensor) -> Dense:
    """Form the gradients with one convolution in which every row is a group of its own."""
    rows = len(inputs)
    together = geometry.weight_gradient(
        inputs.reshape(1, -1, *inputs.shape[2:]),
        outputs.reshape(1, -1, *outputs.shape[2:]),
        weight.repeat(rows, *[1] * (weight.dim() - 1)),
        groups=rows * geometry.groups,
    )
    return Dense(together.view(rows, *weight.shape))


def unfolded(geometry: Geometry, inputs: Tensor, outputs: Tensor, weight: Tensor) -> Dense:
    """Form the gradients with one batched matrix product."""
    patches = geometry.unfold(inputs, weight, outputs.shape[2:])
    formed = geometry.split_outputs(outputs).transpose(2, 3) @ patches
    return Dense(formed.view(len(inputs), *weight.shape))


class Convolution(Gradients):
    """Gradients held by a convolution's inputs and output gradients."""

    def __init__(self, geometry: Geometry, inputs: Tensor, outputs: Tensor, weight: Tensor) -> None:
        self.geometry = geometry
        self.inputs = inputs
        self.outputs = outputs
        self.weight = weight

    def _squares(self) -> Tensor:
        patches = self.geometry.unfold(self.inputs, self.weight, self.outputs.shape[2:])
        outputs = self.geometry.split_outputs(self.outputs)
        squares = Outer(patches.flatten(0, 1), outputs.flatten(0, 1)).squares
        return squares.view(-1, self.geometry.groups).sum(1)

    def dense(self) -> Tensor:
        """Form the gradients."""
        return grouped(self.geometry, self.inputs, self.outputs, self.weight).values

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        """Add the layer's ordinary weight gradient for scaled output gradients."""
        scaled = self.outputs * factors.to(total.dtype).view(-1, *[1] * (self.outputs.dim() - 1))
        total.add_(self.geometry.weight_gradient(self.inputs, scaled, self.weight))

    def keep(self, rows: Tensor) -> Convolution:
        """Zero the other rows in inputs and output gradients."""
        return type(self)(self.geometry, zero_rows(self.inputs, rows), zero_rows(self.outputs, rows), self.weight)


class PixelConvolution(Convolution):
    """A convolution whose patches' Gram matrix is summed from that of its pixels, one shift for each place in the window."""

    def _squares(self) -> Tensor:
        geometry, groups = self.geometry, self.geometry.groups
        positions, kernel = self.outputs.shape[2:], self.weight.shape[2:]
        padded = geometry.padded(self.inputs)
        pixels = padded.flatten(2).reshape(len(padded) * groups, -1, math.prod(padded.shape[2:]))
        products = torch.bmm(pixels.transpose(1, 2), pixels).view(-1, *padded.shape[2:], *padded.shape[2:])
        shifted = []
        for place in itertools.product(*(range(size) for size in kernel)):
            view = products
            for i, offset in enumerate(place):
                reach = slice(offset * geometry.dilation[i], None, geometry.stride[i])
                for dim in (1 + i, 1 + len(kernel) + i):
                    view = view[(slice(None),) * dim + (reach,)].narrow(dim, 0, positions[i])
            shifted.append(view)
        outputs = geometry.split_outputs(self.outputs).flatten(0, 1)
        patches = shifted[0].clone()
        for view in shifted[1:]:
            patches += view
        return patches.mul_(torch.bmm(outputs, outputs.transpose(1, 2)).view_as(patches)).view(len(padded), -1).sum(1)


KERNELS: dict[str, Callable[[Geometry, Tensor, Tensor, Tensor], Gradients]] = {
    "grouped": grouped,
    "unfolded": unfolded,
    "ghost": Convolution,
    "pixel": PixelConvolution,
}


def kernel_costs(geometry: Geometry, inputs: torch.Size, outputs: torch.Size, weight: torch.Size) -> dict[str, float]:
    """Give each kernel's cost per row, in multiply-adds."""
    positions, pixels = math.prod(outputs[2:]), math.prod(inputs[2:])
    patch, window = weight[1:].numel(), weight[2:].numel()
    per_group = outer_costs(positions, patch, weight[0] // geometry.groups)
    formed = 3 * WORD * weight.numel()
    gram = WORD * window * positions**2 + pixels**2 * inputs[1]
    return {
        "grouped": formed,
        "unfolded": formed + WORD * patch * positions,
        "ghost": per_group["ghost"] * geometry.groups + WORD * patch * positions,
        "pixel": gram + positions**2 * weight[0],
    }
