"""Kernels for the per-row gradients of a convolution's weight.

Which one is cheapest depends on the layer's shape (`conv_costs.py`).

    grouped   forms them by one convolution with the rows as groups; good for large maps
    unfolded  forms them by one batched matrix product on unfolded patches; good for small maps
              and few channels
    ghost     norms from Gram matrices of patches and output gradients; good for many channels on
              small maps
    pixel     the same, with the patches' Gram matrix summed from the pixels'; better at stride 1

The last two form no gradient: the weighted sum is the layer's ordinary weight gradient with scaled
output gradients.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from dppipe.engine.gradients.forms import Dense, Gradients, Outer, zero_rows
from dppipe.engine.gradients.norms import row_squares
from dppipe.engine.gradients.products import Gram, cross_products, gram, gram_sizes, roundings_of
from dppipe.engine.rules.conv_geometry import Geometry

CHUNK = 1 << 21
"""Floats of patches that are unfolded at a time."""
FEWEST = 16
"""The fewest rows that are unfolded at a time: products of fewer don't keep the cores busy."""


def row_chunks(inputs: Tensor, outputs: Tensor, weight: Tensor) -> list[slice]:
    """Cut the rows into chunks whose patches fit in the cache."""
    patches = inputs.shape[1] * weight[0, 0].numel() * outputs.shape[2:].numel()
    step = max(FEWEST, CHUNK // patches)
    return [slice(start, start + step) for start in range(0, len(inputs), step)]


def grouped(geometry: Geometry, inputs: Tensor, outputs: Tensor, weight: Tensor) -> Dense:
    """Form the gradients with convolutions in which every row is a group of its own.

    They run in chunks, since each needs memory to work in.
    """
    step = max(1, 2 * CHUNK // weight.numel())
    if len(inputs) <= step:
        return Dense(_grouped(geometry, inputs, outputs, weight))
    values = inputs.new_empty(len(inputs), *weight.shape)
    for start in range(0, len(inputs), step):
        chunk = slice(start, start + step)
        values[chunk] = _grouped(geometry, inputs[chunk], outputs[chunk], weight)
    return Dense(values)


def _grouped(
    geometry: Geometry, inputs: Tensor, outputs: Tensor, weight: Tensor
) -> Tensor:  # -> [B, *weight.shape]
    rows = len(inputs)
    # Only the shape of the third argument is used.
    together = geometry.weight_gradient(
        inputs.reshape(1, -1, *inputs.shape[2:]),
        outputs.reshape(1, -1, *outputs.shape[2:]),
        weight.new_zeros(()).expand(rows * len(weight), *weight.shape[1:]),
        groups=rows * geometry.groups,
    )
    return together.view(rows, *weight.shape)


class Unfolded(Gradients):
    """Gradients formed from unfolded patches and held in their order: channels last."""

    def __init__(self, geometry: Geometry, inputs: Tensor, outputs: Tensor, weight: Tensor) -> None:
        values = inputs.new_empty(
            len(inputs), geometry.groups, len(weight) // geometry.groups, weight[0].numel()
        )
        gradients = outputs.reshape(*values.shape[:3], -1)
        for chunk in row_chunks(inputs, outputs, weight):
            patches = geometry.unfold(inputs[chunk], weight, outputs.shape[2:])
            torch.bmm(
                gradients[chunk].flatten(0, 1),
                patches.flatten(0, 1),
                out=values[chunk].flatten(0, 1),
            )
        self.values = values.flatten(1)  # [B, p * k * C / groups]
        self.shape = weight.shape

    def _squares(self) -> Tensor:
        return row_squares(self.values)

    def dense(self) -> Tensor:
        """Return the gradients in the weight's own order."""
        return self._in_order(self.values)

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        """Add one matrix-vector product, in the weight's own order."""
        summed = torch.mv(self.values.t(), factors.to(self.values.dtype))
        total.add_(self._in_order(summed.unsqueeze(0)).squeeze(0))

    def keep(self, rows: Tensor) -> Dense:
        """Zero the other rows."""
        return Dense(zero_rows(self.dense(), rows))

    def _in_order(self, values: Tensor) -> Tensor:  # [n, ...] -> [n, *shape]
        outputs, inputs, *window = self.shape
        return values.reshape(len(values), outputs, *window, inputs).movedim(-1, 2)


class Convolution(Gradients):
    """Gradients held by a convolution's inputs and output gradients."""

    def __init__(self, geometry: Geometry, inputs: Tensor, outputs: Tensor, weight: Tensor) -> None:
        self.geometry = geometry
        self.inputs = inputs
        self.outputs = outputs
        self.weight = weight

    def _squares(self) -> Tensor:
        found = []
        for chunk in row_chunks(self.inputs, self.outputs, self.weight):
            outputs = self.outputs[chunk]
            patches = self.geometry.unfold(self.inputs[chunk], self.weight, outputs.shape[2:])
            positions = self.geometry.split_outputs(outputs)
            squares = Outer(patches.flatten(0, 1), positions.flatten(0, 1)).squares
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
    """A convolution whose patches' Gram matrix is summed from that of its pixels.

    There is one shift for each place in the window.
    """

    def _squares(self) -> Tensor:
        geometry = self.geometry
        padded = geometry.padded(self.inputs)
        size = padded.shape[2:]
        pixels = padded.flatten(2).reshape(len(padded) * geometry.groups, -1, math.prod(size))
        pixels = pixels.transpose(1, 2)
        shifted = self._shifted(cross_products(pixels, pixels).view(-1, *size, *size))
        patches = shifted[0].clone()
        for view in shifted[1:]:
            patches += view
        outputs = geometry.split_outputs(self.outputs).flatten(0, 1)
        patches = patches.flatten(1).view(len(outputs), outputs.shape[1], -1)
        channels = pixels.shape[2]
        window = len(shifted)
        patch_gram = Gram(patches, roundings_of(channels) + window - 1, 3 * channels * window)
        return gram_sizes(patch_gram, gram(outputs)).squares.view(len(padded), -1).sum(1)

    def _shifted(self, products: Tensor) -> list[Tensor]:  # [B * groups, *pixels, *pixels]
        """Return the pixels' inner products as seen from each place in the window."""
        geometry = self.geometry
        positions = self.outputs.shape[2:]
        kernel = self.weight.shape[2:]
        shifted = []
        for place in itertools.product(*map(range, kernel)):
            view = products
            for i, offset in enumerate(place):
                reach = slice(offset * geometry.dilation[i], None, geometry.stride[i])
                for dim in (1 + i, 1 + len(kernel) + i):
                    view = view[(slice(None),) * dim + (reach,)].narrow(dim, 0, positions[i])
            shifted.append(view)
        return shifted


KERNELS: dict[str, Callable[[Geometry, Tensor, Tensor, Tensor], Gradients]] = {
    "grouped": grouped,
    "unfolded": Unfolded,
    "ghost": Convolution,
    "pixel": PixelConvolution,
}
