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

from dppipe.engine.gradients.costs import MOVE, formed, outer_costs
from dppipe.engine.gradients.forms import Dense, Gradients, Outer, zero_rows
from dppipe.engine.gradients.norms import row_squares
from dppipe.engine.gradients.products import Gram, cross_products, gram, gram_sizes, roundings_of

PIECE = 1 << 21
"""Floats of patches that are unfolded at a time."""
FEWEST = 16
"""Rows that are unfolded at a time at least: products of fewer don't keep the cores busy."""


@dataclass(frozen=True)
class Geometry:
    """How a convolution's window moves; `groups` counts channel groups."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def weight_gradient(
        self, inputs: Tensor, outputs: Tensor, weight: Tensor, *, groups: int | None = None
    ) -> Tensor:
        """Give the gradient of a weight of this shape, summed over rows."""
        none = [0] * len(self.stride)
        count = self.groups if groups is None else groups
        found: Tensor
        _, found, _ = torch.ops.aten.convolution_backward(
            outputs,
            inputs,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            False,
            none,
            count,
            [False, True, False],
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
        return (
            F.pad(inputs, [side for size in reversed(self.padding) for side in (size, size)])
            if any(self.padding)
            else inputs
        )

    def unfold(
        self, inputs: Tensor, weight: Tensor, positions: Sequence[int]
    ) -> Tensor:  # -> [B, groups, T, k * C / groups]
        """Give the patch under the window at every position, channels last: neighbours in memory stay together."""
        dims = len(self.stride)
        patches = self.padded(inputs).movedim(1, -1).contiguous()
        for i, (stride, dilation, size) in enumerate(
            zip(self.stride, self.dilation, weight.shape[2:], strict=True)
        ):
            patches = patches.unfold(i + 1, dilation * (size - 1) + 1, stride)[
                ..., ::dilation
            ].narrow(i + 1, 0, positions[i])
        split = torch.unflatten(
            patches, 1 + dims, (self.groups, -1)
        )  # [B, *positions, groups, C / groups, *window]
        order = (0, 1 + dims, *range(1, 1 + dims), *range(3 + dims, 3 + 2 * dims), 2 + dims)
        return split.permute(order).reshape(len(inputs), self.groups, math.prod(positions), -1)

    def split_outputs(self, outputs: Tensor) -> Tensor:  # [B, p, ...] -> [B, groups, T, p / groups]
        """Give the output gradients position by position."""
        return torch.unflatten(outputs.flatten(2), 1, (self.groups, -1)).transpose(2, 3)


def row_pieces(inputs: Tensor, outputs: Tensor, weight: Tensor) -> list[slice]:
    """Cut the rows into pieces whose patches are few enough to be read while they are in cache."""
    patches = inputs.shape[1] * weight[0, 0].numel() * outputs.shape[2:].numel()
    step = max(FEWEST, PIECE // patches)
    return [slice(start, start + step) for start in range(0, len(inputs), step)]


def grouped(geometry: Geometry, inputs: Tensor, outputs: Tensor, weight: Tensor) -> Dense:
    """Form the gradients with convolutions in which every row is a group of its own; in pieces, since each takes work space."""
    step = max(1, 2 * PIECE // weight.numel())
    if len(inputs) <= step:
        return Dense(_grouped(geometry, inputs, outputs, weight))
    values = inputs.new_empty(len(inputs), *weight.shape)
    for start in range(0, len(inputs), step):
        piece = slice(start, start + step)
        values[piece] = _grouped(geometry, inputs[piece], outputs[piece], weight)
    return Dense(values)


def _grouped(
    geometry: Geometry, inputs: Tensor, outputs: Tensor, weight: Tensor
) -> Tensor:  # -> [B, *weight.shape]
    rows = len(inputs)
    together = geometry.weight_gradient(
        inputs.reshape(1, -1, *inputs.shape[2:]),
        outputs.reshape(1, -1, *outputs.shape[2:]),
        weight.new_zeros(()).expand(
            rows * len(weight), *weight.shape[1:]
        ),  # only its shape is looked at
        groups=rows * geometry.groups,
    )
    return together.view(rows, *weight.shape)


class Unfolded(Gradients):
    """Gradients formed from unfolded patches, and held as those come: channels last."""

    def __init__(self, geometry: Geometry, inputs: Tensor, outputs: Tensor, weight: Tensor) -> None:
        values = inputs.new_empty(
            len(inputs), geometry.groups, len(weight) // geometry.groups, weight[0].numel()
        )
        gradients = outputs.reshape(*values.shape[:3], -1)
        for piece in row_pieces(inputs, outputs, weight):
            patches = geometry.unfold(inputs[piece], weight, outputs.shape[2:])
            torch.bmm(
                gradients[piece].flatten(0, 1),
                patches.flatten(0, 1),
                out=values[piece].flatten(0, 1),
            )
        self.values = values.flatten(1)  # [B, p * k * C / groups]
        self.shape = weight.shape

    def _squares(self) -> Tensor:
        return row_squares(self.values)

    def dense(self) -> Tensor:
        """Give the gradients in the weight's own order."""
        return self._in_order(self.values)

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        """Add one matrix-vector product, put in order."""
        summed = torch.mv(self.values.t(), factors.to(self.values.dtype))
        total.add_(self._in_order(summed.unsqueeze(0)).squeeze(0))

    def keep(self, rows: Tensor) -> Dense:
        """Zero the other rows."""
        return Dense(zero_rows(self.dense(), rows))

    def _in_order(self, values: Tensor) -> Tensor:  # [n, ...] -> [n, *shape]
        return values.reshape(len(values), self.shape[0], *self.shape[2:], self.shape[1]).movedim(
            -1, 2
        )


class Convolution(Gradients):
    """Gradients held by a convolution's inputs and output gradients."""

    def __init__(self, geometry: Geometry, inputs: Tensor, outputs: Tensor, weight: Tensor) -> None:
        self.geometry = geometry
        self.inputs = inputs
        self.outputs = outputs
        self.weight = weight

    def _squares(self) -> Tensor:
        found = []
        for piece in row_pieces(self.inputs, self.outputs, self.weight):
            inputs, outputs = self.inputs[piece], self.outputs[piece]
            patches = self.geometry.unfold(inputs, self.weight, outputs.shape[2:])
            squares = Outer(
                patches.flatten(0, 1), self.geometry.split_outputs(outputs).flatten(0, 1)
            ).squares
            found.append(squares.view(-1, self.geometry.groups).sum(1))
        return torch.cat(found)

    def dense(self) -> Tensor:
        """Form the gradients."""
        return grouped(self.geometry, self.inputs, self.outputs, self.weight).values

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        """Add the layer's ordinary weight gradient for scaled output gradients."""
        scaled = self.outputs * factors.to(total.dtype).view(-1, *[1] * (self.outputs.dim() - 1))
        total.add_(self.geometry.weight_gradient(self.inputs, scaled, self.weight))

    def keep(self, rows: Tensor) -> Convolution:
        """Zero the other rows in inputs and output gradients."""
        return type(self)(
            self.geometry, zero_rows(self.inputs, rows), zero_rows(self.outputs, rows), self.weight
        )


class PixelConvolution(Convolution):
    """A convolution whose patches' Gram matrix is summed from that of its pixels, one shift for each place in the window."""

    def _squares(self) -> Tensor:
        geometry, groups = self.geometry, self.geometry.groups
        positions, kernel = self.outputs.shape[2:], self.weight.shape[2:]
        padded = geometry.padded(self.inputs)
        pixels = padded.flatten(2).reshape(len(padded) * groups, -1, math.prod(padded.shape[2:]))
        pixels = pixels.transpose(1, 2)
        products = cross_products(pixels, pixels).view(-1, *padded.shape[2:], *padded.shape[2:])
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
        channels, window = pixels.shape[2], len(shifted)
        patches = patches.flatten(1).view(len(outputs), outputs.shape[1], -1)
        found = gram_sizes(
            Gram(patches, roundings_of(channels) + window - 1, 3 * channels * window), gram(outputs)
        )
        return found.squares.view(len(padded), -1).sum(1)


KERNELS: dict[str, Callable[[Geometry, Tensor, Tensor, Tensor], Gradients]] = {
    "grouped": grouped,
    "unfolded": Unfolded,
    "ghost": Convolution,
    "pixel": PixelConvolution,
}


def kernel_costs(
    geometry: Geometry, inputs: torch.Size, outputs: torch.Size, weight: torch.Size
) -> dict[str, float]:
    """Give what each kernel adds to the cost of the ordinary weight gradient, per row."""
    rows, positions, window = inputs[0], math.prod(outputs[2:]), weight[2:].numel()
    products, patches, moved = (
        positions * weight.numel(),
        window * inputs[1] * positions,
        inputs[1:].numel(),
    )
    pixels = math.prod(
        size + 2 * pad for size, pad in zip(inputs[2:], geometry.padding, strict=True)
    )
    held, outer = (
        formed(rows, weight.numel()),
        outer_costs(rows, positions, patches // positions, weight[0]),
    )
    # Vector kernels for convolutions with many groups want blocks of 16 channels in each; others run far below their speed.
    blocks = weight[1] % 16 == 0 and (weight[0] // geometry.groups) % 16 == 0
    return {
        "grouped": (held + 60 * weight.numel() + MOVE / 2 * (moved + outputs[1:].numel()))
        * (1 if blocks else 20),
        "unfolded": held + products * (0.2 + 20 / weight[0]) + MOVE * (patches + moved),
        "ghost": outer["ghost"] / geometry.groups
        + MOVE * (patches + moved + 2 * outputs[1:].numel()),
        "pixel": (pixels**2 * inputs[1] + positions**2 * weight[0]) / geometry.groups
        + window * positions**2 * (MOVE + 600 / outputs[-1]),
    }
